/** A text cannot be parsed. The message is the reason, and the end of a sentence. */
export class WordError extends Error {}

/** A builder might accept the text, but parsing it would cost too much here. */
export class LimitError extends WordError {}
