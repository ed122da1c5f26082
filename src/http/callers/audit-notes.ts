import type { IncomingMessage } from 'node:http';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import type { Digest } from '../../oci/digest.ts';
import { formatReference } from '../../oci/naming.ts';
import type { ContainerRequest } from '../../request/index.ts';
import type { AuditLog } from '../../storage/rows/index.ts';
import { callerAddress } from '../client-address.ts';
import { stateOf } from '../request-state.ts';

/** Records in the audit log what the sender of a request did. */
export type RecordAudit = (request: IncomingMessage, action: string, target: string) => void;

export function createRecordAudit(
  audit: Pick<AuditLog, 'add'>,
  trustedProxies: number,
): RecordAudit {
  return (request, action, target) => {
    const actor = actorOf(request);
    audit.add({ actor, client: callerAddress(request, trustedProxies), action, target });
  };
}

/** Records in the audit log of pulls who pulls an image. */
export type NotePull = (request: IncomingMessage, image: AuditedPull) => void;

export interface AuditedPull {
  /** Registry and repository, or the repository of this server. */
  readonly name: string;
  /** Tag or digest, as the client asked for it. */
  readonly reference: string;
  readonly digest: Digest;
  /** Label of the container token, for a served name. */
  readonly label?: string | undefined;
}

const pullWindowMs = 30_000;
const mostPulls = 20_000;

/**
 * Returns a function that notes the pull of a manifest, once within half a minute for the same caller and manifest: clients
 * ask for it several times. Unlike the counts of pulls, two callers behind one address are two. It waits for nothing.
 */
export function createNotePull(
  audit: Pick<AuditLog, 'add'> | undefined,
  trustedProxies: number,
): NotePull {
  if (!audit) return () => {};
  const noted = boundedCache<string, true>(mostPulls, { ttl: pullWindowMs });
  return (request, { name, reference, digest, label }) => {
    if (request.method !== 'GET') return;
    const actor = actorOf(request);
    const client = callerAddress(request, trustedProxies);
    const key = [actor, client, name, digest, label].join(' ');
    if (noted.has(key)) return;
    noted.set(key, true);
    const tag = reference === digest ? '' : `:${reference}`;
    const token = label === undefined ? '' : ` by the name ${label}`;
    audit.add({ actor, client, action: 'image.pull', target: `${name}${tag}@${digest}${token}` });
  };
}

/**
 * Records in the audit log of builds who starts one.
 *
 * @param made the container request that it is for; absent if that failed after the build had begun
 */
export type NoteBuild = (
  request: IncomingMessage,
  made?: Pick<ContainerRequest, 'buildId' | 'image'>,
) => void;

export function createNoteBuild(
  audit: Pick<AuditLog, 'add'> | undefined,
  trustedProxies: number,
): NoteBuild {
  const note = audit && createRecordAudit(audit, trustedProxies);
  return (request, made) => {
    const target = made
      ? `${made.buildId ?? ''} for ${formatReference(made.image)}`
      : 'a build whose container request failed';
    note?.(request, 'build.start', target);
  };
}

/** Returns the sender of a request as the audit log names it. */
function actorOf(request: IncomingMessage): string {
  const { who: { account, user } = {}, hasServerToken } = stateOf(request);
  if (account !== undefined) return `account ${account}`;
  if (user !== undefined) return `user ${user}`;
  // Callers without a login may cancel the builds that they requested.
  return hasServerToken ? 'a token of this server' : 'a caller without a login';
}
