/** An unusable configuration; the message names each wrong setting and the reason. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}
