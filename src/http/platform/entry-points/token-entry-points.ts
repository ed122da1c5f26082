import { Fault } from '../../../foundation/fault.ts';
import {
  keysDocument,
  readKeys,
  type TokenScope,
  tokenScopes,
  unknownCredentials,
} from '../../../platform/built-in/index.ts';
import type { CredentialOwner } from '../../../storage/rows/index.ts';
import { requireRole } from '../../callers/identify.ts';
import { noContent, ok, pathNumber } from '../../route/declaration.ts';
import { type Actor, type Backend, entryPoint, nameOf, ownerOf, userIdOf } from '../entry-point.ts';
import {
  credentialsQuery,
  credentialsResponse,
  keysResponse,
  newCredentialsResponse,
  newCredentialsSchema,
  newTokenResponse,
  newTokenSchema,
  tokensQuery,
  tokensResponse,
  workspaceQuery,
} from '../platform-schemas.ts';
import {
  credentialsView,
  describeCredentials,
  describeToken,
  tokenView,
} from '../platform-views.ts';

/** Entry points of access tokens. Users manage their own tokens, administrators manage all tokens. */
export const tokenEntryPoints = [
  entryPoint({
    id: 'listTokens',
    method: 'get',
    path: '/tokens',
    tag: 'Tokens',
    summary: 'List your own access tokens; for administrators, those of a user or all',
    access: 'either',
    role: 'tokens',
    scope: 'manage',
    query: tokensQuery,
    responses: ok(tokensResponse),
    async run({ actor, query: { user, max, offset } }, backend) {
      const { platform } = backend;
      const holder = await userIdOf(actor, user, backend);
      const { entries, total } = await platform.tokens.list(holder, { limit: max, offset });
      return {
        tokens: await Promise.all(entries.map(token => tokenView(token, platform))),
        totalSize: total,
      };
    },
  }),
  entryPoint({
    id: 'createToken',
    method: 'post',
    path: '/tokens',
    tag: 'Tokens',
    summary: 'Create an access token',
    access: 'either',
    role: 'tokens',
    scope: 'manage',
    body: { schema: newTokenSchema },
    responses: ok(newTokenResponse),
    faults: ['in-use', 'not-found', 'storage-full'],
    async run({ actor, body: { name, expiration, user, scopes, repositories }, note }, backend) {
      const { platform } = backend;
      const holder = await userIdOf(actor, user, backend);
      if (holder === undefined) {
        throw new Fault(
          'bad-request',
          "'user' is missing: send the e-mail address of the user who gets the token",
          {
            phase: 'request',
          },
        );
      }
      const expiresAt = expiration === undefined ? undefined : Date.parse(expiration);
      const wanted = { user: holder, name, expiresAt, scopes, repositories };
      const { value, token } = await (actor.kind === 'user'
        ? platform.tokens.create(wanted, actor)
        : platform.tokens.create({ ...wanted, ...givenBy(actor, wanted) }));
      note('token.create', describeToken(token, (await platform.users.get(holder)).email));
      // Whoever gets the token of another user has left a trace.
      await backend.audit.flush();
      return { accessKey: value, token: await tokenView(token, platform) };
    },
  }),
  entryPoint({
    id: 'revokeToken',
    method: 'delete',
    path: '/tokens/{tokenId}',
    tag: 'Tokens',
    summary: 'Revoke an access token',
    access: 'either',
    role: 'tokens',
    scope: 'manage',
    params: { tokenId: pathNumber },
    responses: noContent,
    faults: ['not-found'],
    async run({ actor, params, note }, { platform }) {
      const holder = actor.kind === 'user' ? actor.user.id : undefined;
      const { name, user } = await platform.tokens.revoke(params.tokenId, holder);
      note('token.revoke', `'${name}' of ${(await platform.users.get(user)).email}`);
      return undefined;
    },
  }),
];

/**
 * Returns what an administrator adds to a token for a user. Only the role `credentials` lets a token read the secrets of
 * its user. Throws a {@link Fault} (403) without the role.
 */
function givenBy(
  actor: Extract<Actor, { kind: 'administrator' }>,
  {
    scopes,
    repositories,
  }: { readonly scopes?: readonly TokenScope[] | undefined; readonly repositories?: unknown },
) {
  const creator = nameOf(actor);
  if (scopes?.includes('manage')) requireRole(actor.roles, 'credentials');
  if (scopes || repositories || actor.roles.includes('credentials')) return { creator };
  return { creator, scopes: tokenScopes.filter(scope => scope !== 'manage') };
}

/** Entry points of registry credentials. Only users can read the secrets; administrators can replace them. */
export const credentialEntryPoints = [
  entryPoint({
    id: 'listCredentials',
    method: 'get',
    path: '/credentials',
    tag: 'Credentials',
    summary: 'List your own credentials, or those of a workspace. Default for administrators: all',
    access: 'either',
    role: 'credentials',
    scope: 'manage',
    query: credentialsQuery,
    responses: ok(credentialsResponse),
    async run({ actor, query: { max, offset, ...named } }, backend) {
      const owner = await ownerOf(actor, named, backend);
      const { entries, total } = await backend.platform.vault.list(owner, { limit: max, offset });
      return {
        credentials: await Promise.all(
          entries.map(entry => credentialsView(entry, backend.platform)),
        ),
        totalSize: total,
      };
    },
  }),
  entryPoint({
    id: 'addCredentials',
    method: 'post',
    path: '/credentials',
    tag: 'Credentials',
    summary: 'Add credentials for yourself or for a workspace',
    access: 'either',
    role: 'credentials',
    scope: 'manage',
    query: workspaceQuery,
    body: { schema: newCredentialsSchema },
    responses: ok(newCredentialsResponse),
    faults: ['in-use', 'not-found', 'storage-full'],
    async run({ actor, query, body: { credentials, user, workspaceId }, note }, backend) {
      const owner = await ownerOf(
        actor,
        { user, workspaceId: workspaceId ?? query.workspaceId },
        backend,
      );
      if (!owner) {
        throw new Fault(
          'bad-request',
          "The owner of the credentials is missing: send 'user' or 'workspaceId'",
          {
            phase: 'request',
          },
        );
      }
      const { name, description, provider = 'container-reg', keys: given } = credentials;
      const keys = readKeys({ ...given, discriminator: provider });
      if (!keys) throw new Error('The schema accepted keys that cannot be read');
      const { registry } = given;
      const kept = await backend.platform.vault.add({ owner, name, description, keys, registry });
      note('credentials.add', await describeCredentials(kept, backend.platform));
      return { credentialsId: kept.id, credentials: await credentialsView(kept, backend.platform) };
    },
  }),
  entryPoint({
    id: 'getKeys',
    method: 'get',
    path: '/credentials/{credentialsId}/keys',
    tag: 'Credentials',
    summary: 'Return the secret of your own credentials, or of those of a workspace',
    access: 'user',
    scope: 'manage',
    query: workspaceQuery,
    responses: ok(keysResponse),
    faults: ['not-found'],
    async run({ actor, params, query: { workspaceId } }, { platform }) {
      const keys = await platform.keysFor(actor.user, params.credentialsId, workspaceId);
      return { keys: JSON.stringify(keysDocument(keys)) };
    },
  }),
  entryPoint({
    id: 'removeCredentials',
    method: 'delete',
    path: '/credentials/{credentialsId}',
    tag: 'Credentials',
    summary: 'Remove credentials',
    access: 'either',
    role: 'credentials',
    scope: 'manage',
    responses: noContent,
    faults: ['not-found'],
    async run({ actor, params: { credentialsId }, note }, backend) {
      const { platform } = backend;
      const kept = await platform.vault.find(credentialsId);
      if (!(await mayManage(actor, kept.owner, platform))) throw unknownCredentials(credentialsId);
      const about = await describeCredentials(kept, backend.platform);
      await platform.vault.remove(credentialsId);
      note('credentials.remove', about);
      return undefined;
    },
  }),
];

/** Returns true if the caller may manage the credentials. Every member of a workspace may manage its credentials. */
async function mayManage(
  actor: Actor,
  owner: CredentialOwner,
  { workspaces }: Backend['platform'],
): Promise<boolean> {
  if (actor.kind === 'administrator') return true;
  return owner.kind === 'user'
    ? owner.id === actor.user.id
    : workspaces.hasMember(owner.id, actor.user.id);
}
