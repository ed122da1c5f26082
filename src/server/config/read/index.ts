/** Settings as the parts of a server need them. */

export { effectiveSettings } from '../effective.ts';
export { accessRules } from './access-in-force.ts';
export { configuredBuilderShares } from './builder-shares.ts';
export { configuredBuilderTls } from './builder-tls-files.ts';
export { configuredShares } from './caller-shares.ts';
export { configuredChannels } from './conda-channels.ts';
export { ownHosts } from './own-hosts.ts';
export { configuredPlaces } from './places.ts';
export { publicUrlOf } from './public-url.ts';
export {
  anonymousCredentials,
  configuredCredentials,
  configuredRegistries,
  uselessMirrorCredentials,
} from './registries.ts';
export { configuredSifSigner } from './sif-signer.ts';
export { type TlsSettings, tlsSettings } from './tls.ts';
