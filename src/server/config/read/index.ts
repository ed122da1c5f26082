/** Settings as the parts of a server need them. */

export { effectiveSettings } from '../effective.ts';
export { accessRules, configuredPlaces, configuredShares } from './access-in-force.ts';
export {
  ownHosts,
  publicUrlOf,
  readReplicaSettings,
  type TlsSettings,
  tlsSettings,
} from './addresses.ts';
export {
  configuredBuilderShares,
  configuredBuilderTls,
  configuredSifSigner,
} from './configured-builds.ts';
export { configuredMail, configuredWebhooks } from './configured-messages.ts';
export { configuredScanner, scanFolder } from './configured-scans.ts';
export {
  anonymousCredentials,
  configuredChannels,
  configuredCredentials,
  configuredIndexes,
  configuredRegistries,
  uselessMirrorCredentials,
} from './registries.ts';
