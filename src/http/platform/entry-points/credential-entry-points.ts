import { Fault } from '../../../foundation/fault.ts';
import { keysDocument, readKeys, unknownCredentials } from '../../../platform/built-in/index.ts';
import type { CredentialOwner } from '../../../storage/rows/index.ts';
import { noContent, ok } from '../../route/declaration.ts';
import { type Actor, type Backend, entryPoint, ownerOf } from '../entry-point.ts';
import {
  credentialsQuery,
  credentialsResponse,
  keysResponse,
  newCredentialsResponse,
  newCredentialsSchema,
  workspaceQuery,
} from '../platform-schemas.ts';
import { credentialsView, describeCredentials } from '../platform-views.ts';

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
