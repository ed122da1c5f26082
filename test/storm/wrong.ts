/** Something that must never happen, also while servers die. It ends the storm. */
export class Wrong extends Error {}
