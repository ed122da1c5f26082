/** The JSON API, and its steps for the pages. */

export { type ApiBasis, callerOf, limitOf } from './api-route.ts';
export {
  type BuildFilter,
  type BuildList,
  type BuildListSources,
  type BuildState,
  buildStates,
  listBuilds,
  listedKinds,
  type ShownBuild,
} from './builds/build-list.ts';
export { type CancelDeps, cancelBuild, requesterOf } from './builds/build-routes.ts';
export { type AcceptRequestDeps, acceptRequest } from './container/container-routes.ts';
export {
  type AskedNames,
  type EndRequestDeps,
  endNames,
  endRequest,
  isOwner,
  type LiveNameDeps,
  liveNames,
  nameImage,
  namePlace,
  placeText,
} from './container/live-name-routes.ts';
export { checkScanMode, type ScanRules } from './container/scan-mode.ts';
export { requireScans, type ScanRoutesDeps } from './container/scan-routes.ts';
export { jsonApi, jsonApiDocument } from './json-api.ts';
export { isStatusPath, statusApi } from './status-api.ts';
export { isAccepted, type ValidateDeps } from './validate-credentials.ts';
export { runWithinLimit } from './within-limit.ts';
