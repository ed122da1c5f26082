/** What every request passes: gates, limits, callers, bodies, errors. */

export { createBodyMemory, lendMemory, usualBodyMemory } from './bodies/body-memory.ts';
export { readBody } from './bodies/read-body.ts';
export { sendValue } from './bodies/send-value.ts';
export {
  createNoteBuild,
  createNotePull,
  createRecordAudit,
  type RecordAudit,
} from './callers/audit-notes.ts';
export { admitHandedOn, handedOnHeaders } from './callers/handed-on.ts';
export {
  createAdministratorCheck,
  createCheckAccount,
  createIdentify,
  type RequireAdministrator,
  readBasic,
  readBearer,
} from './callers/identify.ts';
export { respondToBrokenRequests } from './errors/broken-requests.ts';
export { outermost } from './errors/error-responses.ts';
export { faultHeaders, faultOf } from './errors/fault-of.ts';
export { type AccessRules, createGate } from './gates/access-gate.ts';
export { keepBuildersToImages } from './gates/builder-paths.ts';
export { requireChanges } from './gates/change-check.ts';
export { createCrossOrigin } from './gates/cross-origin.ts';
export { mayUpgrade, refuseForeignForms, refuseForeignPages } from './gates/foreign-page.ts';
export { createHostCheck, type OwnHosts, requireOwnHost } from './gates/own-host.ts';
export {
  type ConnectionLimits,
  createConnections,
  endSlowPeers,
  type RefusedListener,
} from './limits/connections.ts';
export { serveHalfClosed } from './limits/half-closed.ts';
export {
  type Allowance,
  createLimiter,
  createLoginLimit,
  type Limiter,
  limitHeaders,
  rateFor,
} from './limits/limiter.ts';
export { limitRequestsAtOnce } from './limits/requests-at-once.ts';
export { createObserver, traceRequests } from './observe.ts';
export { createCallLimits, platformRoutes } from './platform/platform-routes.ts';
export { describeCredentials, describeToken } from './platform/platform-views.ts';
export { type Check, clientSignal, gate, type RequestState } from './request-state.ts';
export { pathOfTarget, queryOf } from './request-target.ts';
