/** Files for the builder, packet by packet. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type Packet,
  PacketSchema,
  Packet_PacketType as PacketType,
} from '../../src/buildkit/gen/fsutil/types/wire_pb.js';
import { type FileTree, memoryTree } from '../../src/buildkit/index.ts';
import { fileSyncHandler } from '../../src/buildkit/session/file-sync.ts';
import { eventually } from '../world/eventually.ts';

/** A builder that sends the messages of the test. */
class Builder {
  readonly received: Packet[] = [];
  readonly failures: unknown[] = [];
  readonly #queue: Buffer[] = [];
  #wake = () => {};
  #isOver = false;
  readonly ended: Promise<unknown>;

  constructor(tree: FileTree, headers: Record<string, string[]> = {}) {
    const handler = fileSyncHandler(new Map([['context', tree]]), error => {
      this.failures.push(error);
    });
    this.ended = handler
      .handle({
        header: name => ({ 'dir-name': ['context'], ...headers })[name] ?? [],
        messages: this.#messages(),
        send: async bytes => {
          this.received.push(fromBinary(PacketSchema, bytes));
        },
        signal: new AbortController().signal,
      })
      .then(
        () => undefined,
        error => error,
      );
  }

  say(type: PacketType, ID = 0, data = ''): void {
    const packet = create(PacketSchema, { type, ID, data: Buffer.from(data) });
    this.#queue.push(Buffer.from(toBinary(PacketSchema, packet)));
    this.#wake();
  }

  leave(): void {
    this.#isOver = true;
    this.#wake();
  }

  /** Waits until all entries are announced; they are `path mode size`. */
  async told(): Promise<string[]> {
    const isLast = ({ type, stat }: Packet) => type === PacketType.PACKET_STAT && !stat;
    await eventually('all entries are announced', () => this.received.some(isLast));
    return this.received.flatMap(({ stat }) =>
      stat ? [`${stat.path} ${stat.mode.toString(16)} ${stat.size} ${stat.linkname}`.trim()] : [],
    );
  }

  /** Returns the bytes of a file once it is complete. */
  async bytes(ID: number): Promise<string> {
    const packets = () => this.received.filter(packet => packet.ID === ID && isData(packet));
    const isWhole = () => packets().some(({ data }) => data.length === 0);
    await eventually('all bytes are there', isWhole);
    return Buffer.concat(packets().map(({ data }) => data)).toString();
  }

  async *#messages(): AsyncGenerator<Buffer> {
    while (true) {
      const next = this.#queue.shift();
      if (next) yield next;
      else if (this.#isOver) return;
      else {
        await new Promise<void>(resolve => {
          this.#wake = resolve;
        });
      }
    }
  }
}

const isData = ({ type }: Packet) => type === PacketType.PACKET_DATA;

suite('files for the builder', () => {
  const tree = memoryTree({
    'a/one': 'first',
    'a/two': { data: 'x'.repeat(700_000), mode: 0o4711 },
    link: { symlink: 'a/one' },
    sticky: { directory: true, mode: 0o3777 },
    empty: '',
  });

  test('entries with the modes of Go, then the requested bytes', async () => {
    const builder = new Builder(tree);
    assert.deepEqual(await builder.told(), [
      ...['a 800001ed 0', 'a/one 1a4 5', 'a/two 8001c9 700000'],
      ...['empty 1a4 0', 'link 80001ff 0 a/one', 'sticky 805001ff 0'],
    ]);
    for (const ID of [2, 1, 3]) builder.say(PacketType.PACKET_REQ, ID);
    assert.equal(await builder.bytes(1), 'first');
    assert.equal((await builder.bytes(2)).length, 700_000);
    assert.equal(await builder.bytes(3), '');
    assert.ok(builder.received.every(({ data }) => data.length <= 256 * 1024));
    builder.say(PacketType.PACKET_FIN);
    assert.equal(await builder.ended, undefined);
    assert.equal(builder.received.at(-1)?.type, PacketType.PACKET_FIN);
  });

  test('names of one file are links to the first one that is selected', async () => {
    const file = (name: string, inode?: string) =>
      ({ name, kind: 'file', mode: 0o644, size: 1, mtimeMs: 0, inode }) as const;
    const links: FileTree = {
      list: async () => [file('c', '1'), file('b', '1'), file('d'), file('a', '1'), file('e', '2')],
      async *read(path) {
        yield Buffer.from(path);
      },
    };
    assert.deepEqual(await new Builder(links).told(), [
      ...['a 1a4 1', 'b 1a4 0 a', 'c 1a4 0 a', 'd 1a4 1', 'e 1a4 1'],
    ]);
    const builder = new Builder(links, { 'exclude-patterns': ['a'] });
    assert.deepEqual(await builder.told(), ['b 1a4 1', 'c 1a4 0 b', 'd 1a4 1', 'e 1a4 1']);
    builder.say(PacketType.PACKET_REQ, 0);
    assert.equal(await builder.bytes(0), 'b');
    builder.say(PacketType.PACKET_REQ, 1);
    assert.match(String(await builder.ended), /requested file 1/);
  });

  test('requested paths are selected in every notation', async () => {
    const odd = memoryTree({ 'ü b': '', 'c+d': '', 'e, f': '', g: '' });
    const paths = async (headers: Record<string, string[]>) =>
      (await new Builder(odd, headers).told()).map(line => line.replace(/ 1a4 0$/, ''));
    assert.deepEqual(await paths({ followpaths: ['c+d', 'e, f'] }), ['c+d', 'e, f']);
    const encoded = { followpaths: ['%C3%BC+b', 'c%2Bd'], 'followpaths-encoded': ['1'] };
    assert.deepEqual(await paths(encoded), ['c+d', 'ü b']);
    assert.deepEqual(await paths({ 'exclude-patterns': ['*', '!g'] }), ['g']);
  });

  test('a directory that is not part of the build', async () => {
    const builder = new Builder(tree, { 'dir-name': ['other'] });
    assert.match(String(await builder.ended), /directory 'other' is not part of this build/);
    assert.deepEqual(builder.failures, []);
  });

  test('a request for something that is not a file, and a builder that stops or disconnects', async () => {
    for (const [say, why] of [
      [(builder: Builder) => builder.say(PacketType.PACKET_REQ, 0), /requested file 0/],
      [(builder: Builder) => builder.say(PacketType.PACKET_ERR, 0, 'disk full'), /disk full/],
      [(builder: Builder) => builder.leave(), /disconnected during a transfer/],
    ] as const) {
      const builder = new Builder(tree);
      await builder.told();
      say(builder);
      assert.match(String(await builder.ended), why);
      assert.equal(builder.received.at(-1)?.type, PacketType.PACKET_ERR);
      assert.deepEqual(builder.failures, [], 'nothing failed here');
    }
  });

  test('a file that cannot be read', async () => {
    const builder = new Builder({
      list: tree.list,
      // biome-ignore lint/correctness/useYield: it fails before there is anything
      async *read() {
        throw new Error('bad sector');
      },
    });
    await builder.told();
    builder.say(PacketType.PACKET_REQ, 1);
    assert.match(String(await builder.ended), /bad sector/);
    assert.match(String(builder.failures[0]), /bad sector/);
    assert.match(String(Buffer.from(builder.received.at(-1)?.data ?? [])), /bad sector/);
  });

  test('a directory that cannot be listed', async () => {
    const list = () => Promise.reject(new Error('not allowed'));
    const builder = new Builder({ ...tree, list });
    assert.match(String(await builder.ended), /not allowed/);
    assert.equal(builder.failures.length, 1);
  });
});
