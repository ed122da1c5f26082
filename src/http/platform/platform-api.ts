import { Fault } from '../../foundation/fault.ts';
import { describeApi, type OpenApi } from '../api/description/api-description.ts';
import { type ApiRequest, type Backend, type EntryPoint, entryPoint } from './entry-point.ts';
import { auditEntryPoints } from './entry-points/audit-entry-points.ts';
import { credentialEntryPoints } from './entry-points/credential-entry-points.ts';
import { runEntryPoints } from './entry-points/run-entry-points.ts';
import { tokenEntryPoints } from './entry-points/token-entry-points.ts';
import { userEntryPoints } from './entry-points/user-entry-points.ts';
import { workspaceEntryPoints } from './entry-points/workspace-entry-points.ts';
import { platformInfoAnswer } from './platform-schemas.ts';

/** The version of the API that there is. Source: platform specification, section 9. */
export const apiVersion = '1';

export interface PlatformRequest extends Omit<ApiRequest, 'params'> {
  readonly method: string;
  /** Below the base: `/user-info`. */
  readonly path: string;
}

/**
 * The API of the built-in platform, whether it is called over HTTP or in the same process: answers a
 * request, with nothing where there is nothing to tell. Throws a {@link Fault}: 403 for an entry point that
 * there is not, as the platform specification has it (section 7), else what the entry point throws.
 */
export type PlatformApi = (request: PlatformRequest) => Promise<object | undefined>;

const entryPoints: readonly EntryPoint[] = [
  ...userEntryPoints,
  ...tokenEntryPoints,
  ...workspaceEntryPoints,
  ...credentialEntryPoints,
  ...auditEntryPoints,
  ...runEntryPoints,
  entryPoint({
    method: 'get',
    path: '/service-info',
    summary: 'Version and commit',
    access: 'anybody',
    answer: platformInfoAnswer,
    run: (_, { version }) => ({ serviceInfo: { ...version, apiVersion } }),
  }),
  entryPoint({
    method: 'get',
    path: '/openapi.json',
    summary: 'This description',
    access: 'anybody',
    run: (_, { version }) => describePlatformApi(version.version),
  }),
];

export function createPlatformApi(backend: Backend): PlatformApi {
  return async ({ method, path, ...request }) => {
    for (const candidate of entryPoints) {
      const params = candidate.method === method.toLowerCase() && match(candidate.path, path);
      if (params) return candidate.call({ ...request, params }, backend);
    }
    throw new Fault(
      'denied',
      'There is no such entry point: GET /platform/openapi.json lists them all',
      { phase: 'request' },
    );
  };
}

/** The OpenAPI document of the built-in platform. */
export function describePlatformApi(version: string): OpenApi {
  const security = {
    anybody: undefined,
    user: ['token'],
    administrator: ['account'],
    either: ['token', 'account'],
  };
  return describeApi({
    title: 'Sluice platform',
    version,
    description:
      'Users, access tokens, workspaces and registry credentials of the platform that is part of Sluice.',
    base: '/platform',
    operations: entryPoints.map(({ access, query, body, ...described }) => ({
      ...described,
      request: body,
      ...(described.method === 'delete' ? { status: 204 } : {}),
      ...(query ? { query: describeQuery(query) } : {}),
      ...(security[access] ? { security: security[access] } : {}),
    })),
    securitySchemes: {
      token: { type: 'http', scheme: 'bearer', description: 'An access token of a user' },
      account: { type: 'http', scheme: 'basic', description: 'An account that administers Sluice' },
    },
  });
}

function describeQuery(schema: NonNullable<EntryPoint['query']>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(schema.shape).map(([name, member]) => [
      name,
      (member as { description?: string }).description ?? '',
    ]),
  );
}

/** What stands for the names in braces; undefined for another path. */
function match(template: string, path: string): Record<string, string> | undefined {
  const wanted = template.split('/');
  const found = path.split('/');
  if (wanted.length !== found.length) return undefined;
  const params: Record<string, string> = {};
  for (const [at, word] of wanted.entries()) {
    const text = found[at] ?? '';
    const name = /^\{(\w+)\}$/.exec(word)?.[1];
    if (name === undefined ? word !== text : text === '') return undefined;
    if (name !== undefined) params[name] = text;
  }
  return params;
}
