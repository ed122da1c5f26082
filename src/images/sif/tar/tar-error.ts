/** A tar file that is not well formed, or has what cannot be converted; the message ends a sentence that names the layer. */
export class TarError extends Error {}
