import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { faultOfError, fetchUrl, type Transport } from '../../upstream/index.ts';
import { closedAddressIn } from '../../upstream/transport/index.ts';
import { isCommitId } from './git-address.ts';

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

/**
 * @param transport connects to public addresses, and to those that builders may connect to
 */
export function createCommitFinder(transport: Transport): CommitFinder {
  return {
    async check(url) {
      await transport.checkReach({ url: new URL(url) }).catch(error => {
        throw unreadable(url, error);
      });
    },

    async commitOf(url, revision, signal) {
      if (revision !== undefined && isCommitId(revision)) return revision;
      const address = new URL(`${url}/info/refs?service=git-upload-pack`);
      const response = await fetchUrl(transport, address, signal).catch(error => {
        throw signal.aborted ? error : unreadable(url, error);
      });
      const places = placesOf(revision);
      const found = new Map<string, string>();
      const { body } = response;
      try {
        for await (const line of packetLines(body)) {
          const [, id, name] = /^([0-9a-f]{40}) ([^\0\n]{1,1000})/.exec(line) ?? [];
          if (id !== undefined && name !== undefined && places.includes(name)) found.set(name, id);
        }
      } catch (error) {
        if (!(error instanceof PacketProblem)) throw error;
        throw refuse(`${url} ${error.message}: check that it is the address of a git repository`);
      } finally {
        body.destroy();
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

function refuse(message: string): Fault {
  return new Fault('bad-request', message, { phase: 'build' });
}

/** An answer that no git server gives. */
class PacketProblem extends Error {}

interface Chunks {
  read(): Promise<{ readonly bytes: Uint8Array; release(): void } | null>;
}

/** Yields the lines of a list of references. Source: git, `gitprotocol-common` and `gitprotocol-http`. */
async function* packetLines(source: Chunks): AsyncGenerator<string> {
  let rest = Buffer.alloc(0);
  let total = 0;
  for (;;) {
    const chunk = await source.read();
    if (chunk === null) break;
    rest = Buffer.concat([rest, chunk.bytes]);
    total += chunk.bytes.length;
    chunk.release();
    if (total > maxBytes)
      throw new PacketProblem(`lists more than ${maxBytes} bytes of references`);
    let at = 0;
    for (;;) {
      if (rest.length - at < 4) break;
      const digits = rest.toString('latin1', at, at + 4);
      if (!/^[0-9a-f]{4}$/.test(digits)) throw new PacketProblem('does not answer as git does');
      const length = Number.parseInt(digits, 16);
      // The end of a part of the list.
      if (length < 4) {
        at += 4;
        continue;
      }
      if (length > longestLine) throw new PacketProblem('does not answer as git does');
      if (rest.length - at < length) break;
      yield rest.toString('utf8', at + 4, at + length);
      at += length;
    }
    rest = rest.subarray(at);
    await pauseTurn();
  }
  if (rest.length > 0) throw new PacketProblem('ends too early');
}
