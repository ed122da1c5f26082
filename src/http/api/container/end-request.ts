import type { IncomingMessage } from 'node:http';
import { Fault } from '../../../foundation/fault.ts';
import { formatReference } from '../../../oci/naming.ts';
import { requireScope } from '../../../platform/built-in/index.ts';
import type { Caller, ContainerRequest } from '../../../request/index.ts';
import type { TokenRegistry } from '../../../request/tokens/index.ts';
import type { RecordAudit } from '../../callers/audit-notes.ts';
import type { RequireAdministrator } from '../../callers/basic-auth.ts';

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
  throw error.retold(
    `Only the person who made a container request with a login, or an administrator, can end it: ${error.message}`,
  );
}
