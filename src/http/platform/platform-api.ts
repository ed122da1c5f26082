import { Fault } from '../../foundation/fault.ts';
import { documentSchema } from '../api/container/response-schema.ts';
import { ok } from '../route/declaration.ts';
import { describeApi, type OpenApi } from '../route/describe-api.ts';
import type { Route } from '../route/pipeline.ts';
import { createRouter } from '../route/router.ts';
import { type ApiRequest, type Backend, entryPoint, type PlatformKind } from './entry-point.ts';
import { messageEntryPoints } from './entry-points/message-entry-points.ts';
import { runEntryPoints } from './entry-points/run-entry-points.ts';
import { credentialEntryPoints, tokenEntryPoints } from './entry-points/token-entry-points.ts';
import { userEntryPoints, workspaceEntryPoints } from './entry-points/user-entry-points.ts';
import { auditQuery, auditResponse, platformInfoResponse } from './platform-schemas.ts';
import { auditView } from './platform-views.ts';

/** The supported version of the API. Source: platform specification, section 9. */
export const apiVersion = '1';

export interface PlatformRequest extends Omit<ApiRequest, 'params'> {
  readonly method: string;
  /** Path below the base: `/user-info`. */
  readonly path: string;
}

/**
 * The API of the built-in platform, for calls over HTTP and from the same process. Returns the body of the response, or
 * nothing if the response has no body. Throws a {@link Fault}: 403 for an entry point that does not exist (platform
 * specification, section 7), and every `Fault` of the entry point.
 */
export type PlatformApi = (request: PlatformRequest) => Promise<object | undefined>;

const entryPoints: readonly Route<PlatformKind>[] = [
  ...userEntryPoints,
  ...tokenEntryPoints,
  ...workspaceEntryPoints,
  ...credentialEntryPoints,
  entryPoint({
    id: 'listAuditLog',
    method: 'get',
    path: '/audit',
    tag: 'Audit',
    summary: 'List the audit log, newest entries first',
    access: 'administrator',
    role: 'audit',
    query: auditQuery,
    responses: ok(auditResponse),
    async run({ query: { of, max, before } }, { audits }) {
      const entries = await audits[of].list({ before, limit: max });
      return { entries: entries.map(auditView) };
    },
  }),
  ...messageEntryPoints,
  ...runEntryPoints,
  entryPoint({
    id: 'getServiceInfo',
    method: 'get',
    path: '/service-info',
    tag: 'Service',
    summary: 'Version and commit',
    access: 'anybody',
    responses: ok(platformInfoResponse),
    run: (_, { version }) => ({ serviceInfo: { ...version, apiVersion } }),
  }),
  entryPoint({
    id: 'getOpenApi',
    method: 'get',
    path: '/openapi.json',
    tag: 'Service',
    summary: 'This description',
    access: 'anybody',
    responses: ok(documentSchema, 'The description'),
    run: (_, { version }) => describePlatformApi(version.version),
  }),
];

export function createPlatformApi(backend: Backend): PlatformApi {
  const find = createRouter(entryPoints);
  return async ({ method, path, ...request }) => {
    const found = find(method, path);
    if (found && 'route' in found) {
      return found.route.answer({ ...request, params: found.params }, backend);
    }
    throw new Fault('denied', 'No such entry point: GET /platform/openapi.json lists them all', {
      phase: 'request',
    });
  };
}

const loginFaults = ['unauthorized', 'denied', 'too-many-requests'] as const;

const access = {
  anybody: { security: [], faults: [] },
  user: { security: ['token'], faults: loginFaults },
  administrator: { security: ['account'], faults: loginFaults },
  either: { security: ['token', 'account'], faults: loginFaults },
} satisfies Record<keyof PlatformKind['knows'], object>;

/** Returns the OpenAPI document of the built-in platform. */
export function describePlatformApi(version: string): OpenApi {
  return describeApi({
    title: 'Sluice platform',
    version,
    description:
      'Users, access tokens, workspaces and registry credentials of the platform that is built into Sluice.',
    base: '/platform',
    routes: entryPoints,
    tags: {
      Users: 'Users and the holder of an access token',
      Tokens: 'Access tokens',
      Workspaces: 'Workspaces and their members',
      Credentials: 'Registry credentials',
      Audit: 'The audit log',
      Messages: 'Messages to other servers',
      Runs: 'Reports of workflow runs, which are not kept',
      Service: 'The platform itself',
    },
    access,
    securitySchemes: {
      token: { type: 'http', scheme: 'bearer', description: 'An access token of a user' },
      account: { type: 'http', scheme: 'basic', description: 'An account that administers Sluice' },
    },
  });
}
