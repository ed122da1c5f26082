/** The JSON API, and its steps for the pages. */

export { type ApiBasis, callerOf, limitOf } from './api-route.ts';
export { type CancelDeps, cancelBuild, requesterOf } from './builds/cancel-build.ts';
export { type AcceptRequestDeps, acceptRequest } from './container/accept-request.ts';
export { type EndRequestDeps, endRequest, isOwner } from './container/end-request.ts';
export {
  type AskedNames,
  endNames,
  type LiveNameDeps,
  liveNames,
  nameImage,
  namePlace,
  placeText,
} from './container/live-name-routes.ts';
export { jsonApi, jsonApiDocument } from './json-api.ts';
export { isAccepted, type ValidateDeps } from './validate-credentials.ts';
