import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { inField } from '../../../builds/plan/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { formatReference } from '../../../oci/naming.ts';
import { requireScope } from '../../../platform/built-in/index.ts';
import {
  type Caller,
  type ContainerRequest,
  imageFilter,
  type LiveName,
  listLiveNames,
  type NameList,
  ownerOfName,
} from '../../../request/index.ts';
import { isNameId, type NameId, type TokenRegistry } from '../../../request/tokens/index.ts';
import type { RequestPlace, RequestStore } from '../../../storage/rows/index.ts';
import type { RecordAudit } from '../../callers/audit-notes.ts';
import { isSiteAdministrator, type RequireAdministrator } from '../../callers/identify.ts';
import { ok } from '../../route/declaration.ts';
import { apiRoute } from '../api-route.ts';
import { isoTime } from './container-response.ts';

export interface LiveNameDeps extends EndRequestDeps {
  readonly requests: Pick<RequestStore, 'endingAfter' | 'find'>;
}

const tag = 'Containers';
const maxImage = 4096;
export const nameImage = z.string().max(maxImage, `is longer than ${maxImage} characters`);
export const namePlace = z.string().regex(/^\d{1,15}-\d{1,15}$/, "is not the 'next' of a response");
const image = nameImage.describe(
  'Image as it was requested: its name with or without tag or digest, or a digest alone',
);
const last = namePlace.optional().describe('`next` of the previous response');
const nameSchema = z.object({
  id: z.string().describe('Ends the name; it gives no access to the image'),
  image: z.string().describe('Image as it was requested, or as it was built'),
  digest: z.string().optional().describe('Digest that is served; absent until the image is built'),
  buildId: z.string().optional(),
  user: z
    .string()
    .optional()
    .describe('Who requested the name; absent for a caller without a login'),
  workflowId: z.string().optional().describe('The run that the name ends with'),
  creationTime: z.iso.datetime(),
  expiration: z.iso.datetime().describe('Later while the run of the name is active'),
});
const seconds = z
  .string()
  .regex(/^\d{1,9}$/, 'is not a whole number of seconds')
  .optional()
  .describe('How long from now the names live. Default: as long as new ones');
const nameId = z.string().regex(/^[0-9a-f]{64}$/, 'is not the id of a name: it has 64 hex digits');
const next = z
  .string()
  .optional()
  .describe('`last` of the next call. A response with few entries, or none, can have it, too');

const extendedSchema = z.object({
  extended: z.number().int().describe('Names that live longer now'),
  next,
});

/** Routes that list the served names of an image and end them: users their own ones, administrators all. */
export const liveNameRoutes = [
  apiRoute({
    id: 'listContainers',
    method: 'get',
    path: '/v1alpha1/containers',
    tag,
    summary: 'Served names that have not ended: those of the caller, for administrators all',
    access: 'caller',
    query: z.object({ image: image.optional(), last }),
    responses: ok(z.object({ containers: z.array(nameSchema), next }), 'A part of the list'),
    async run({ ctx, caller, query }, deps: LiveNameDeps) {
      const { names, next } = await liveNames(ctx.req, caller, query, deps);
      return { containers: names.map(shownName), ...nextOf(next) };
    },
  }),
  apiRoute({
    id: 'endContainers',
    method: 'delete',
    path: '/v1alpha1/containers',
    tag,
    summary: 'End the served names of an image: those of the caller, for administrators all',
    description: 'Call it again with `last` until the response has no `next`.',
    access: 'caller',
    // An empty text would end all names.
    query: z.object({ image: image.min(1, 'is empty'), last }),
    responses: ok(
      z.object({ ended: z.number().int().describe('Names that this call has ended'), next }),
      'The names can no longer be pulled',
    ),
    async run({ ctx, caller, query }, deps: LiveNameDeps) {
      const { names, next } = await liveNames(ctx.req, caller, query, deps);
      return { ended: await endNames(ctx.req, names, deps), ...nextOf(next) };
    },
  }),
  apiRoute({
    id: 'endContainerById',
    method: 'delete',
    path: '/v1alpha1/containers/{id}',
    tag,
    summary: 'End one served name of the list',
    access: 'caller',
    params: { id: nameId },
    responses: ok(z.object({ ended: z.number().int() }), 'The name can no longer be pulled'),
    faults: ['not-found'],
    async run({ ctx, caller, params }, deps: LiveNameDeps) {
      const id = await ownName(ctx.req, caller, params.id, deps);
      if (!(await deps.tokens.revokeById(id))) throw unknownName();
      deps.recordAudit(ctx.req, 'request.end', id.slice(0, 12));
      return { ended: 1 };
    },
  }),
  apiRoute({
    id: 'extendContainers',
    method: 'post',
    path: '/v1alpha1/containers/extend',
    tag,
    summary: 'Extend the served names of an image: those of the caller, for administrators all',
    description:
      "Never beyond the server's `tokens.maxLife`. A name that ends with a run lives until then, or as long as the run. Call it again with `last` until the response has no `next`.",
    access: 'caller',
    query: z.object({ image: image.min(1, 'is empty'), seconds, last }),
    responses: ok(extendedSchema, 'The names live longer'),
    async run({ ctx, caller, query }, deps: LiveNameDeps) {
      const { names, next } = await liveNames(ctx.req, caller, query, deps);
      return { extended: await extendNames(ctx.req, names, query.seconds, deps), ...nextOf(next) };
    },
  }),
  apiRoute({
    id: 'extendContainerById',
    method: 'post',
    path: '/v1alpha1/containers/{id}/extend',
    tag,
    summary: 'Extend one served name of the list',
    access: 'caller',
    params: { id: nameId },
    query: z.object({ seconds }),
    responses: ok(
      z.object({ extended: z.number().int(), expiration: z.iso.datetime() }),
      'The end of the name; `extended` is 0 where nothing could be added',
    ),
    faults: ['not-found'],
    async run({ ctx, caller, params, query }, deps: LiveNameDeps) {
      const id = await ownName(ctx.req, caller, params.id, deps);
      const extension = await deps.tokens.extendById(id, millisOf(query.seconds));
      if (!extension) throw unknownName();
      const { expiresAt, isLonger } = extension;
      if (isLonger) deps.recordAudit(ctx.req, 'request.extend', id.slice(0, 12));
      return { extended: Number(isLonger), expiration: isoTime(expiresAt) };
    },
  }),
];

export interface AskedNames {
  readonly image?: string | undefined;
  readonly last?: string | undefined;
}

/**
 * Returns a page of the names that a caller may end. Throws a {@link Fault}: 400 for an invalid image, 401 for a caller
 * without a login, 403 for an access token that may not make requests.
 */
export async function liveNames(
  request: IncomingMessage,
  caller: Caller,
  { image, last }: AskedNames,
  { requests, requireAdministrator }: Pick<LiveNameDeps, 'requests' | 'requireAdministrator'>,
): Promise<NameList & { readonly isForAll: boolean }> {
  const user = await userOfCaller(request, caller, requireAdministrator);
  const isWanted = inField('image', () => imageFilter(image || undefined));
  const query = { isWanted, user, after: placeOf(last) };
  return {
    ...(await listLiveNames(requests, query, Date.now())),
    isForAll: user === undefined,
  };
}

/** Ends names, and records that. Returns how many had not ended before. */
export async function endNames(
  request: IncomingMessage,
  names: readonly LiveName[],
  { tokens, recordAudit }: Pick<LiveNameDeps, 'tokens' | 'recordAudit'>,
): Promise<number> {
  const ended = await Promise.all(
    names.map(async ({ id, image }) => {
      if (!(await tokens.revokeById(id))) return false;
      recordAudit(request, 'request.end', `${id.slice(0, 12)} of ${image}`);
      return true;
    }),
  );
  return ended.filter(Boolean).length;
}

/** Extends names, and records that. Returns how many live longer now. */
async function extendNames(
  request: IncomingMessage,
  names: readonly LiveName[],
  seconds: string | undefined,
  { tokens, recordAudit }: Pick<LiveNameDeps, 'tokens' | 'recordAudit'>,
): Promise<number> {
  const extended = await Promise.all(
    names.map(async ({ id, image }) => {
      if (!(await tokens.extendById(id, millisOf(seconds)))?.isLonger) return false;
      recordAudit(request, 'request.extend', `${id.slice(0, 12)} of ${image}`);
      return true;
    }),
  );
  return extended.filter(Boolean).length;
}

function millisOf(seconds: string | undefined): number | undefined {
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

/** Returns the id of a name that the caller may change. Throws a {@link Fault} (404) for all others. */
async function ownName(
  request: IncomingMessage,
  caller: Caller,
  id: string,
  { requests, requireAdministrator }: Pick<LiveNameDeps, 'requests' | 'requireAdministrator'>,
): Promise<NameId> {
  const user = await userOfCaller(request, caller, requireAdministrator);
  if (!isNameId(id)) throw unknownName();
  const isOwn = user === undefined || (await ownerOfName(requests, id)) === user;
  if (!isOwn) throw unknownName();
  return id;
}

/** Returns the place of a page as text, for the call that continues there. */
export function placeText({ expiresAt, id }: RequestPlace): string {
  return `${expiresAt}-${id}`;
}

function placeOf(text: string | undefined): RequestPlace | undefined {
  if (!text) return undefined;
  const [expiresAt = 0, id = 0] = text.split('-').map(Number);
  return { expiresAt, id };
}

/** Returns the user whose names a caller may see and end; undefined for an administrator, who may do so with all. */
async function userOfCaller(
  request: IncomingMessage,
  { user, rights }: Caller,
  requireAdministrator: RequireAdministrator,
): Promise<string | undefined> {
  if (user === undefined) {
    throw new Fault(
      'unauthorized',
      "The list of served names requires a login: send an access token, or an administrator's account (HTTP basic)",
      {
        phase: 'credentials',
        headers: { 'www-authenticate': 'Basic realm="Sluice", charset="UTF-8"' },
      },
    );
  }
  requireScope(rights, 'request');
  return (await isSiteAdministrator(request, requireAdministrator)) ? undefined : user;
}

function shownName(name: LiveName) {
  const { id, image, digest, buildId, user, workflowId, createdAt, expiresAt } = name;
  return {
    id,
    image,
    ...(digest === undefined ? {} : { digest }),
    ...(buildId === undefined ? {} : { buildId }),
    ...(user === undefined ? {} : { user }),
    ...(workflowId === undefined ? {} : { workflowId }),
    creationTime: isoTime(createdAt),
    expiration: isoTime(expiresAt),
  };
}

function nextOf(next: RequestPlace | undefined) {
  return next === undefined ? {} : { next: placeText(next) };
}

function unknownName(): Fault {
  return new Fault(
    'not-found',
    'No served name of yours has this id: it has ended, or somebody else requested it. List yours with GET /v1alpha1/containers',
    { phase: 'request' },
  );
}

export interface EndRequestDeps {
  readonly tokens: TokenRegistry;
  readonly requireAdministrator: RequireAdministrator;
  readonly recordAudit: RecordAudit;
}

/** Returns true for the person who made the container request with a login. */
export function isOwner(
  { user }: Pick<Caller, 'user'>,
  { caller }: Pick<ContainerRequest, 'caller'>,
): boolean {
  return user !== undefined && user === caller.user;
}

/**
 * Ends a container request for the person who made it, or for an administrator, and records that. Throws a `Fault`: 401
 * and 403 for others, 404 for an unknown token.
 */
export async function endRequest(
  request: IncomingMessage,
  caller: Caller,
  token: string,
  { tokens, requireAdministrator, recordAudit }: EndRequestDeps,
): Promise<void> {
  const isOwn = await tokens.describe(token).then(
    found => isOwner(caller, found),
    () => false,
  );
  if (isOwn) requireScope(caller.rights, 'request');
  else await requireAdministrator(request, 'site').catch(refuseEnd);
  await tokens.revoke(token);
  const { label, image } = await tokens.describe(token);
  recordAudit(request, 'request.end', `${label} of ${formatReference(image)}`);
}

/** Throws the reason why the caller may not end another caller's request. */
function refuseEnd(error: unknown): never {
  if (!(error instanceof Fault) || !['unauthorized', 'denied'].includes(error.kind)) throw error;
  throw error.withMessage(
    `Only the person who made a container request with a login, or an administrator, can end it: ${error.message}`,
  );
}
