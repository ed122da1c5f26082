/** The registry: its routes, logins and meters. */

export { largestOrder, type OfferedBlob, parseOrder, sendBlob } from './blobs/send-blob.ts';
export { type CountHostedPull, countHostedPulls } from './hosted/hosted-routes.ts';
export {
  createRegistryAuth,
  type ListedRepositories,
  listRights,
  mayNotDelete,
  pullRights,
} from './login/registry-auth.ts';
export { createLogIn } from './login/token-route.ts';
export { registryRoutes, tokenPath } from './registry-routes.ts';
export { createPullMeter, type ServedDeps, watchRight } from './served-routes.ts';
