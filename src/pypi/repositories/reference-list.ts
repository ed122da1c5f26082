import { fetchUrl, type Transport } from '../../upstream/index.ts';
import { PacketProblem, readPackets, unexpectedResponse } from './packets.ts';
import { refused, tooSlow, unreadable } from './repository-faults.ts';

/** A list of references to ask for. */
export interface ListOrder {
  /** The address that is cloned. */
  readonly url: string;
  readonly signal: AbortSignal;
  readonly limits?: Partial<ListLimits>;
}

export interface ListLimits {
  /** For the whole response of a repository. */
  readonly timeoutMs: number;
  readonly maxPackets: number;
}

/** Branches, tags and requests to merge of one repository. Those of the largest ones take 30 MB. */
const maxBytes = 64 * 1024 * 1024;
const usual: ListLimits = { timeoutMs: 60_000, maxPackets: 1_000_000 };

// One after the name of the service and one after the list. Each costs as much time as a line, and has four bytes.
const mostEnds = 2;
// No name that is looked up is longer.
const readBytes = 1100;
const lineGrammar = /^(?:# |version |shallow |(?:([0-9a-f]{40})|[0-9a-f]{64}) ([^\0\n]{1,1000}))/;

/**
 * Reads the branches and tags of a repository. Throws a `Fault` for one that cannot be read. Source: git, `gitprotocol-pack` and
 * `gitprotocol-http`.
 */
export async function listReferences(
  transport: Transport,
  { url, signal, limits }: ListOrder,
  take: (id: string, name: string) => void,
): Promise<void> {
  const { timeoutMs, maxPackets } = { ...usual, ...limits };
  const stop = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  try {
    const address = new URL(`${url}/info/refs?service=git-upload-pack`);
    const { body } = await fetchUrl(transport, address, stop);
    let ends = 0;
    try {
      const bounds = { maxBytes, maxPackets, what: 'lists references with' };
      for await (const { kind, bytes } of readPackets(body, bounds, stop)) {
        if (kind !== 'data') {
          ends += 1;
          if (kind === 'delimiter' || ends > mostEnds) throw new PacketProblem(unexpectedResponse);
          continue;
        }
        const line = bytes.toString('utf8', 0, readBytes);
        const found = lineGrammar.exec(line);
        if (!found) throw new PacketProblem(unexpectedResponse);
        // Behind the first name are the words that the server knows.
        if (line.includes('\0') && line.includes(' object-format=sha256')) throw new OtherHash();
        const [, id, name] = found;
        if (id !== undefined && name !== undefined) take(id, name);
      }
    } finally {
      body.destroy();
    }
  } catch (error) {
    if (signal.aborted) throw error;
    if (stop.aborted) throw tooSlow(url, 'list its branches and tags', timeoutMs);
    if (error instanceof OtherHash) {
      throw refused(
        `The git repository ${url} names its commits by SHA-256, which is not supported: use a repository with SHA-1, or a release of the package at an index`,
      );
    }
    if (!(error instanceof PacketProblem)) {
      throw unreadable(url, error, 'its branches and tags');
    }
    throw refused(`${url} ${error.message}: check that it is the address of a git repository`);
  }
}

class OtherHash extends Error {}
