import { z } from 'zod';
import type { Digest } from '../../oci/digest.ts';
import type { ContainerRequest } from '../../request/index.ts';
import type { TokenRegistry } from '../../request/tokens/index.ts';
import type { CountHostedPull } from './hosted/hosted-pulls.ts';
import type { OwnPullMeter } from './pull-meter.ts';

/** Pulls at once in one message to the leader. */
export const mostToldPulls = 500;
/** Bytes of such a message. */
export const mostToldBytes = 1024 * 1024;

// A name has at most 255 characters in most registries, and a digest of SHA-512 has 135.
const text = z.string().max(1024);
const toldPull = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('served'),
    client: text,
    token: text,
    /**
     * `look`: a request that is only checked. `pull`: one that is counted, unless the limit is reached. `done`: one that was
     * answered while no leader was reached.
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
const toldPulls = z.array(toldPull).max(mostToldPulls);

/** A manifest request that a replica answers itself, and the leader counts. */
export type ToldPull = z.infer<typeof toldPull>;

/** What the leader says to it. */
export interface ToldReply {
  /** False when the replica must hand the request on, such as when a limit is reached. */
  readonly isAdmitted: boolean;
  /** The headers with the remaining allowance. */
  readonly headers?: Readonly<Record<string, string>>;
}

const toldReplies = z.array(
  z.object({ isAdmitted: z.boolean(), headers: z.record(text, text).optional() }),
);

/** Returns the responses to so many pulls. Throws for anything else. */
export function readToldReplies(bytes: Buffer, count: number): readonly ToldReply[] {
  return toldReplies.length(count).parse(JSON.parse(bytes.toString())) as ToldReply[];
}

/** Throws for anything but the pulls of a replica. */
export function readToldPulls(bytes: Buffer): readonly ToldPull[] {
  return toldPulls.parse(JSON.parse(bytes.toString()));
}

/** Counts pulls of another replica, with the limits of this server. Never rejects. */
export type TakePulls = (pulls: readonly ToldPull[]) => Promise<ToldReply[]>;

interface TakePullsDeps {
  readonly tokens: Pick<TokenRegistry, 'get' | 'describe'>;
  readonly meter: OwnPullMeter;
  readonly countHosted: CountHostedPull;
  readonly findImage: (request: ContainerRequest) => Promise<unknown>;
}

const admitted: ToldReply = { isAdmitted: true };
const refused: ToldReply = { isAdmitted: false };

export function createTakePulls(deps: TakePullsDeps): TakePulls {
  const { tokens, meter, countHosted, findImage } = deps;
  const take = async (pull: ToldPull): Promise<ToldReply> => {
    if (pull.kind === 'hosted') {
      const { client, isHead, repository, reference, digest } = pull;
      countHosted({ client, isHead, repository, reference, digest: digest as Digest });
      return admitted;
    }
    if (pull.kind === 'right') {
      await findImage(await tokens.get(pull.token));
      return admitted;
    }
    const { client, token, what } = pull;
    if (what === 'done') {
      // It may have ended since.
      meter.note(client, await tokens.describe(token));
      return admitted;
    }
    const request = await tokens.get(token);
    const isCounted = meter.admit(client, request);
    if (what === 'pull' && !isCounted) meter.count(client, request);
    return { isAdmitted: true, headers: meter.headers(client, request) };
  };
  return pulls => Promise.all(pulls.map(pull => take(pull).catch(() => refused)));
}
