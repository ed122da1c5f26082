/** A malformed tar file, or one that cannot be converted. The message completes a sentence that names the layer. */
export class TarError extends Error {}
