/** The clients of other registries. */

export { type Access, accessTo } from './access.ts';
export { createAuthorizer } from './auth/authorizer.ts';
export { createFetchToken, type FetchToken } from './auth/bearer.ts';
export { type CheckLogin, createCheckLogin } from './auth/login.ts';
export { createExchange } from './exchange.ts';
export { fetchUrl } from './fetch-url.ts';
export { nextPage } from './next-page.ts';
export {
  createPushClient,
  type ManifestPush,
  type PushAccess,
  type PushClient,
  type PushedBlob,
  pushingTo,
} from './push-client.ts';
export {
  checkNotEmpty,
  createRegistryClient,
  findManifest,
  type OpenedBlob,
  type RegistryClient,
} from './registry-client.ts';
export {
  type BlobMode,
  defaultRegistrySettings,
  endpointOf,
  type Registries,
  type RegistrySettings,
  settingsOf,
  withoutReach,
} from './registry-settings.ts';
export { openWhole, type PlacedSource, resumingSource } from './resuming-source.ts';
export { faultOfError } from './transport/failure.ts';
export {
  createTransport,
  type HttpRequest,
  type Transport,
  type TransportLimits,
} from './transport/transport.ts';
export {
  readAll,
  readPart,
  sourceOfStream,
  type UpstreamResponse,
} from './transport/upstream-response.ts';
