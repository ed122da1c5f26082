/** A configuration that cannot be used; the message names each wrong setting and says why. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
