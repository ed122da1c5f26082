/** The settings, read from file and environment. */

export { ConfigError, type ConfigFile, readConfigFile } from './config-file.ts';
export { type ConfigFault, faultsIn, type LoadedConfig, loadConfig, type Origin } from './load.ts';
export {
  isBehindOthers,
  keyDirectory,
  type ReplicaSettings,
  replicaSettings,
} from './read/addresses.ts';
export { content } from './sections/site-schema.ts';
export { type Config, configSchema } from './settings-schema.ts';
