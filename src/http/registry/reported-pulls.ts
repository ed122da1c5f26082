import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import type { Digest } from '../../oci/digest.ts';
import type { ContainerRequest } from '../../request/index.ts';
import type { TokenRegistry } from '../../request/tokens/index.ts';
import type { Allowance } from '../limits/limiter.ts';
import type { CountHostedPull } from './hosted/hosted-pulls.ts';
import type { OwnPullMeter } from './pull-meter.ts';

/** Pulls at once in one message to the leader. */
export const mostReportedPulls = 500;
/** Bytes of such a message. */
export const mostReportedBytes = 1024 * 1024;
/** How long the leader looks for what it does not have in memory. The replica waits for longer than this. */
const responseMs = 500;

// A name has at most 255 characters in most registries, and a digest of SHA-512 has 135.
const text = z.string().max(1024);
const reportedPull = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('served'),
    client: text,
    token: text,
    /**
     * `look`: a request that is only checked. `pull`: one that is counted, unless the limit is reached. `done`: one that was
     * answered already.
     */
    what: z.enum(['look', 'pull', 'done']),
  }),
  /** Asks whether the right to the image of a container token holds. */
  z.strictObject({ kind: z.literal('right'), token: text }),
  z.strictObject({
    kind: z.literal('hosted'),
    client: text,
    isHead: z.boolean(),
    repository: text,
    reference: text,
    digest: text,
  }),
]);
const reportedPulls = z.array(reportedPull).max(mostReportedPulls);

/** A manifest request that a replica answers itself, and the leader counts. */
export type ReportedPull = z.infer<typeof reportedPull>;

/** What the leader says to it. */
export interface PullReply {
  /** False when the replica must hand the request on, such as when a limit is reached. */
  readonly isAdmitted: boolean;
  /** True when the leader cannot know it now, such as without its database. It has not counted the pull. */
  readonly isUnknown?: boolean | undefined;
  /** How long further requests of the pull belong to it, ms, if the leader had counted it before. */
  readonly leftMs?: number | undefined;
  /** How many pulls of a caller with a limit the replica may have answered that the leader has not counted. */
  readonly mostUncounted?: number | undefined;
  /** The remaining allowance of a caller with a limit. */
  readonly allowance?: Allowance | undefined;
}

const pullReplies: z.ZodType<readonly PullReply[]> = z.array(
  z.object({
    isAdmitted: z.boolean(),
    isUnknown: z.boolean().optional(),
    leftMs: z.number().nonnegative().optional(),
    mostUncounted: z.number().int().nonnegative().optional(),
    allowance: z
      .object({
        limit: z.number().nonnegative(),
        remaining: z.number().nonnegative(),
        resetSeconds: z.number().nonnegative(),
      })
      .optional(),
  }),
);

/** Returns the responses to so many pulls. Throws for anything else. */
export function readPullReplies(bytes: Buffer, count: number): readonly PullReply[] {
  const replies = pullReplies.parse(JSON.parse(bytes.toString()));
  if (replies.length !== count) throw new Error(`${replies.length} responses to ${count} pulls`);
  return replies;
}

/** Throws for anything but the pulls of a replica. */
export function readReportedPulls(bytes: Buffer): readonly ReportedPull[] {
  return reportedPulls.parse(JSON.parse(bytes.toString()));
}

/** Counts pulls of another replica, with the limits of this server. Never rejects. */
export type TakePulls = (pulls: readonly ReportedPull[]) => Promise<PullReply[]>;

interface TakePullsDeps {
  readonly tokens: Pick<TokenRegistry, 'get' | 'describe'>;
  readonly meter: OwnPullMeter;
  readonly countHosted: CountHostedPull;
  /** Throws a {@link Fault} when the right to the image does not hold. Does not wait for builds and scans. */
  readonly requireRight: (request: ContainerRequest) => Promise<unknown>;
}

const admitted: PullReply = { isAdmitted: true };
const refused: PullReply = { isAdmitted: false };
const unknown: PullReply = { isAdmitted: false, isUnknown: true };

export function createTakePulls(deps: TakePullsDeps): TakePulls {
  const { tokens, meter, countHosted, requireRight } = deps;

  /** A request that has ended counts as well. Most are in memory, and stay there for pulls without the database. */
  const reportedRequest = (token: string): Promise<ContainerRequest> =>
    tokens.get(token).catch(error => {
      if (error instanceof Fault && error.kind === 'not-found') return tokens.describe(token);
      throw error;
    });

  const take = async (pull: ReportedPull, late: Promise<never>): Promise<PullReply> => {
    if (pull.kind === 'hosted') {
      const { client, isHead, repository, reference, digest } = pull;
      countHosted({ client, isHead, repository, reference, digest: digest as Digest });
      return admitted;
    }
    if (pull.kind === 'right') {
      await Promise.race([tokens.get(pull.token).then(requireRight), late]);
      return admitted;
    }
    const { client, token, what } = pull;
    // Nothing waits after this: a pull that the replica counts by itself is not counted here later.
    const found = what === 'done' ? reportedRequest(token) : tokens.get(token);
    const request = await Promise.race([found, late]);
    // The replica knows when a pull began that is counted now.
    const leftMs = meter.leftMs(client, request) || undefined;
    if (what === 'done') meter.note(client, request);
    else if (what === 'pull') meter.count(client, request);
    else meter.admit(client, request);
    const allowance = meter.allowance(client, request);
    if (!allowance) return { isAdmitted: true, leftMs };
    return { isAdmitted: true, leftMs, mostUncounted: mostUncountedOf(allowance), allowance };
  };

  return async pulls => {
    const { promise: late, reject } = Promise.withResolvers<never>();
    late.catch(() => {});
    const timer = setTimeout(() => reject(tooLate()), responseMs);
    try {
      return await Promise.all(pulls.map(pull => take(pull, late).catch(replyTo)));
    } finally {
      clearTimeout(timer);
    }
  };
}

// So three replicas let through at most 3.75 % above a limit. A replica that has heard of it asks about each pull near the limit.
const shareOfLimit = 80;
const shareOfRest = 16;

/** Returns how many pulls another replica may answer before the leader knows of them. */
function mostUncountedOf({ limit, remaining }: Allowance): number {
  return Math.floor(Math.min(limit / shareOfLimit, remaining / shareOfRest));
}

/** A failure of this server or of what it needs refuses nothing. */
function replyTo(error: unknown): PullReply {
  return error instanceof Fault && error.status < 500 ? refused : unknown;
}

function tooLate(): Fault {
  return new Fault('unavailable', 'The leading server of this site could not look it up in time');
}
