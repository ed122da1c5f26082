/** The registry: its routes, logins and meters. */

export { type OfferedBlob, sendBlob } from './blobs/send-blob.ts';
export { largestOrder, parseOrder } from './blobs/send-order.ts';
export { type CountHostedPull, countHostedPulls } from './hosted/hosted-pulls.ts';
export {
  type ListedRepositories,
  listRights,
  mayNotDelete,
  pullRights,
} from './hosted/list-rights.ts';
export { createRegistryAuth } from './login/registry-auth.ts';
export { createLogIn } from './login/registry-challenge-login.ts';
export { createPullMeter } from './pull-meter.ts';
export { registryRoutes, tokenPath } from './registry-routes.ts';
export type { ServedDeps } from './served-routes.ts';
export { watchRight } from './watch-right.ts';
