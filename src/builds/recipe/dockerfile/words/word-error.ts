/** A text cannot be taken apart; the message tells why and is the end of a sentence. */
export class WordError extends Error {}

/** A builder might take it, and to follow it would cost too much here. */
export class LimitError extends WordError {}
