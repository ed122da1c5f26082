/** The registry: its routes, logins and meters. */

export { largestOrder, parseOrder } from './blobs/order-message.ts';
export { type OfferedBlob, sendBlob } from './blobs/send-blob.ts';
export {
  type CountHostedPull,
  countHostedPulls,
} from './hosted/hosted-pulls.ts';
export {
  createRegistryAuth,
  type ListedRepositories,
  listRights,
  mayNotDelete,
  pullRights,
} from './login/registry-auth.ts';
export { createLogIn } from './login/token-route.ts';
export { createPullMeter, type PullMeter } from './pull-meter.ts';
export { registryRoutes, tokenPath } from './registry-routes.ts';
export {
  createTakePulls,
  mostReportedBytes,
  mostReportedPulls,
  type PullReply,
  type ReportedPull,
  readPullReplies,
  readReportedPulls,
  type TakePulls,
} from './reported-pulls.ts';
export { type ServedDeps, watchRight } from './served-routes.ts';
