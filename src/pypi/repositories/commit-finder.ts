import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { faultOfError, fetchUrl, type Transport } from '../../upstream/index.ts';
import { closedAddressIn } from '../../upstream/transport/index.ts';
import { cloneAddress, isCommitId } from './git-address.ts';

/** Finds commits in git repositories. */
export interface CommitFinder {
  /**
   * Returns the commit that a branch or tag of a repository has now, or its default branch for undefined. Throws a `Fault` for a
   * repository that cannot be read, and for one at a closed address.
   */
  commitOf(url: string, revision: string | undefined, signal: AbortSignal): Promise<string>;
  /** Throws a `Fault` for a repository at a closed address. */
  check(url: string): Promise<void>;
}

/** Branches, tags and requests to merge of one repository. Those of the largest ones take 30 MB. */
const maxBytes = 64 * 1024 * 1024;
const longestLine = 65_520;

interface ListLimits {
  /** For the whole answer of a repository. */
  readonly timeoutMs: number;
  readonly maxPackets: number;
}

const usual: ListLimits = { timeoutMs: 60_000, maxPackets: 1_000_000 };

/**
 * @param transport connects to public addresses, and to those that builders may connect to
 */
export function createCommitFinder(
  transport: Transport,
  limits: Partial<ListLimits> = {},
): CommitFinder {
  const { timeoutMs, maxPackets } = { ...usual, ...limits };
  return {
    async check(asked) {
      const url = cloneAddress({ url: asked });
      await transport.checkReach({ url: new URL(url) }).catch(error => {
        throw unreadable(url, error);
      });
    },

    async commitOf(asked, revision, signal) {
      if (revision !== undefined && isCommitId(revision)) return revision;
      // What is found must be what is built.
      const url = cloneAddress({ url: asked });
      const places = placesOf(revision);
      const found = new Map<string, string>();
      const stop = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
      try {
        const address = new URL(`${url}/info/refs?service=git-upload-pack`);
        const { body } = await fetchUrl(transport, address, stop);
        try {
          await readReferences(body, maxPackets, stop, (id, name) => {
            if (places.includes(name)) found.set(name, id);
          });
        } finally {
          body.destroy();
        }
      } catch (error) {
        if (signal.aborted) throw error;
        if (stop.aborted) throw late(url, timeoutMs);
        if (!(error instanceof PacketProblem)) throw unreadable(url, error);
        throw refuse(`${url} ${error.message}: check that it is the address of a git repository`);
      }
      const [id] = places.flatMap(place => found.get(place) ?? []);
      if (id !== undefined) return id;
      const what = revision === undefined ? 'commit' : `branch or tag '${revision}'`;
      throw refuse(
        `The git repository ${url} has no ${what}${/^[0-9a-f]{7,39}$/.test(revision ?? '') ? ': write all 40 digits of a commit' : ''}`,
      );
    },
  };
}

/** Returns the names that a revision may have, the first one first. A tag with a message is an object beside its commit. */
function placesOf(revision: string | undefined): readonly string[] {
  if (revision === undefined || revision === 'HEAD') return ['HEAD'];
  const names = [`refs/heads/${revision}`, `refs/tags/${revision}`];
  return [...names, revision].flatMap(name => [`${name}^{}`, name]);
}

function unreadable(url: string, error: unknown): Fault {
  const { host } = new URL(url);
  if (closedAddressIn(error)) {
    return refuse(
      `The git repository ${url} is at a loopback, private or otherwise closed network address, which is refused: the operator can allow it with 'builds.privateHosts'`,
    );
  }
  const subject = `The git repository ${url}`;
  const fault = faultOfError(error, { registry: host }, { what: 'its branches and tags' }, subject);
  const isOwn = fault.message.startsWith(subject);
  return fault.retold(
    `${isOwn ? '' : `${subject} cannot be read: `}${fault.message}. A private package belongs at an index that the operator lists with its credentials in 'pypi'`,
  );
}

function late(url: string, ms: number): Fault {
  return new Fault(
    'upstream-timeout',
    `The git repository ${url} did not list its branches and tags within ${ms / 1000} s: try again later`,
    { phase: 'upstream' },
  );
}

function refuse(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'build' });
}

/** An answer that no git server gives. */
class PacketProblem extends Error {}

interface Chunks {
  read(): Promise<{ readonly bytes: Uint8Array; release(): void } | null>;
}

// One after the name of the service and one after the list. Each costs as much time as a line, and has four bytes.
const mostEnds = 2;
const packetsAtOnce = 128;
// No name that is looked up is longer.
const readBytes = 1100;
const lineGrammar = /^(?:# |version |shallow |(?:([0-9a-f]{40})|[0-9a-f]{64}) ([^\0\n]{1,1000}))/;

/** Reads a list of references. Source: git, `gitprotocol-common`, `gitprotocol-pack` and `gitprotocol-http`. */
async function readReferences(
  source: Chunks,
  maxPackets: number,
  signal: AbortSignal,
  take: (id: string, name: string) => void,
): Promise<void> {
  let rest = Buffer.alloc(0);
  let total = 0;
  let packets = 0;
  let ends = 0;
  for (;;) {
    const chunk = await source.read();
    if (chunk === null) break;
    rest = Buffer.concat([rest, chunk.bytes]);
    total += chunk.bytes.length;
    chunk.release();
    if (total > maxBytes)
      throw new PacketProblem(`lists more than ${maxBytes} bytes of references`);
    let at = 0;
    while (rest.length - at >= 4) {
      const digits = rest.toString('latin1', at, at + 4);
      if (!/^[0-9a-f]{4}$/.test(digits)) throw new PacketProblem(otherAnswer);
      const length = Number.parseInt(digits, 16);
      // The end of a part of the list.
      const isEnd = length === 0;
      if (isEnd) ends += 1;
      if (ends > mostEnds || (!isEnd && length <= 4) || length > longestLine) {
        throw new PacketProblem(otherAnswer);
      }
      if (rest.length - at < length) break;
      if (!isEnd) {
        const line = rest.toString('utf8', at + 4, at + Math.min(length, readBytes));
        const found = lineGrammar.exec(line);
        if (!found) throw new PacketProblem(otherAnswer);
        const [, id, name] = found;
        if (id !== undefined && name !== undefined) take(id, name);
      }
      at += isEnd ? 4 : length;
      packets += 1;
      if (packets > maxPackets) throw new PacketProblem(`lists more than ${maxPackets} references`);
      if (packets % packetsAtOnce === 0) {
        await pauseTurn();
        signal.throwIfAborted();
      }
    }
    rest = rest.subarray(at);
    await pauseTurn();
    signal.throwIfAborted();
  }
  if (rest.length > 0) throw new PacketProblem('ends too early');
}

const otherAnswer = 'does not answer as git does';
