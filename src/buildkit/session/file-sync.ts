import { status } from '@grpc/grpc-js';
import type { FileTree, TreeEntry } from '../files/file-tree.ts';
import { type TreeSelection, walkTree } from '../files/tree-walk.ts';
import { type Packet, Packet_PacketType as PacketType } from '../gen/fsutil/types/wire_pb.js';
import { FileSync } from '../gen/moby/filesync/v1/filesync_pb.js';
import { GrpcError, type Handler, type ServerCall, streamHandler } from '../grpc/grpc-server.ts';

type PacketCall = ServerCall<Packet, Partial<Omit<Packet, '$typeName' | 'stat'>> & { stat?: Stat }>;

interface Stat {
  readonly path: string;
  readonly mode: number;
  readonly size: bigint;
  readonly modTime: bigint;
  readonly linkname: string;
}

const pieceBytes = 256 * 1024;
// Number of files that are read at the same time.
const lanes = 4;

/**
 * Serves trees to the builder by the names that it requests, as github.com/tonistiigi/fsutil does: first lists all
 * entries that the builder may see, then sends the content that the builder lacks. `onFailure` receives the error of a
 * file that cannot be read.
 */
export function fileSyncHandler(
  trees: ReadonlyMap<string, FileTree>,
  onFailure: (error: unknown) => void,
): Handler {
  return streamHandler(FileSync.method.diffCopy, async call => {
    const [name = ''] = call.header('dir-name');
    const tree = trees.get(name);
    if (!tree)
      throw new GrpcError(status.NOT_FOUND, `The directory '${name}' is not part of this build`);
    try {
      await sendTree(call, tree, selectionOf(call));
    } catch (error) {
      if (!(error instanceof GrpcError)) onFailure(error);
      if (!call.signal.aborted) {
        await call.send({ type: PacketType.PACKET_ERR, data: Buffer.from(String(error)) });
      }
      throw error;
    }
  });
}

function selectionOf(call: PacketCall): TreeSelection {
  return {
    includes: textsIn(call, 'include-patterns'),
    follows: textsIn(call, 'followpaths'),
    excludes: textsIn(call, 'exclude-patterns'),
  };
}

/** Returns the values of a header. BuildKit encodes all of them like a query if one is not ASCII. */
function textsIn(call: PacketCall, name: string): string[] {
  const isEncoded = call.header(`${name}-encoded`)[0] === '1';
  const decode = (text: string) => decodeURIComponent(text.replaceAll('+', ' '));
  return call.header(name).map(text => (isEncoded ? decode(text) : text));
}

async function sendTree(call: PacketCall, tree: FileTree, selection: TreeSelection): Promise<void> {
  const paths = new Map<number, string>();
  const isListed = sendList(call, tree, selection, paths);
  // A failure on either side ends the other side.
  await Promise.all([isListed, respondToRequests(call, tree, paths)]);
  await call.send({ type: PacketType.PACKET_FIN });
}

/**
 * Sends the list of all entries. Adds each file to `paths` under the number that its position gives it. A further name
 * of a file becomes a hard link to the first name that the builder sees.
 */
async function sendList(
  call: PacketCall,
  tree: FileTree,
  selection: TreeSelection,
  paths: Map<number, string>,
): Promise<void> {
  const firstNames = new Map<string, string>();
  let number = 0;
  for await (const { path, entry } of walkTree(tree, selection)) {
    const { inode } = entry;
    const firstName = inode === undefined ? undefined : firstNames.get(inode);
    if (inode !== undefined && firstName === undefined) firstNames.set(inode, path);
    if (entry.kind === 'file' && firstName === undefined) paths.set(number, path);
    number += 1;
    const stat = statOf(path, entry);
    await call.send({
      type: PacketType.PACKET_STAT,
      stat: firstName === undefined ? stat : { ...stat, size: 0n, linkname: firstName },
    });
  }
  await call.send({ type: PacketType.PACKET_STAT });
}

/** Sends each requested file until the builder has all of them. Reads requests even while it sends. */
async function respondToRequests(
  call: PacketCall,
  tree: FileTree,
  paths: Map<number, string>,
): Promise<void> {
  const sending = Array.from({ length: lanes }, () => Promise.resolve());
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  const read = async () => {
    for await (const packet of call.messages) {
      if (packet.type === PacketType.PACKET_FIN) return;
      if (packet.type === PacketType.PACKET_ERR) {
        throw left(`The builder rejected a file: ${Buffer.from(packet.data)}`);
      }
      if (packet.type !== PacketType.PACKET_REQ) continue;
      const path = paths.get(packet.ID);
      if (path === undefined)
        throw left(`The builder requested file ${packet.ID}, which was not announced`);
      const lane = packet.ID % lanes;
      const sent = (sending[lane] ?? Promise.resolve()).then(() =>
        sendFile(call, tree, path, packet.ID),
      );
      sent.catch(failed.reject);
      sending[lane] = sent;
    }
    throw left('The builder disconnected during a transfer');
  };
  await Promise.race([read(), failed.promise]);
  await Promise.all(sending);
}

/** Returns the error for a call that the builder ended. The builder knows the cause best. */
function left(message: string): GrpcError {
  return new GrpcError(status.ABORTED, message);
}

async function sendFile(call: PacketCall, tree: FileTree, path: string, ID: number): Promise<void> {
  for await (const chunk of tree.read(path)) {
    for (let start = 0; start < chunk.length; start += pieceBytes) {
      const data = chunk.subarray(start, start + pieceBytes);
      await call.send({ type: PacketType.PACKET_DATA, ID, data });
    }
  }
  await call.send({ type: PacketType.PACKET_DATA, ID });
}

function statOf(path: string, entry: TreeEntry): Stat {
  return {
    path,
    mode: goFileMode(entry),
    size: BigInt(entry.size),
    modTime: BigInt(Math.round(entry.mtimeMs * 1000)) * 1000n,
    linkname: entry.target ?? '',
  };
}

/** Returns the mode with the bits of Go's `os.FileMode`, which differ from those of stat(2). */
function goFileMode({ kind, mode }: TreeEntry): number {
  const kinds = { file: 0, directory: 0x8000_0000, symlink: 0x0800_0000 };
  const special =
    (mode & 0o4000 ? 0x0080_0000 : 0) +
    (mode & 0o2000 ? 0x0040_0000 : 0) +
    (mode & 0o1000 ? 0x0010_0000 : 0);
  return kinds[kind] + special + (mode & 0o777);
}
