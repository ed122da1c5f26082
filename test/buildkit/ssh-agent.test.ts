/** SSH agents of builds: real keys of ssh-keygen, used by OpenSSH's own programs. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { suite, test } from 'node:test';
import { create, toBinary } from '@bufbuild/protobuf';
import { BytesMessageSchema } from '../../src/buildkit/gen/moby/sshforward/v1/ssh_pb.js';
import type { Handler } from '../../src/buildkit/grpc/grpc-server.ts';
import { readSshKey } from '../../src/buildkit/index.ts';
import {
  agentMessagesIn,
  keyAgent,
  type SshAgent,
  socketAgent,
  sshHandlers,
} from '../../src/buildkit/session/ssh/ssh-agent.ts';
import { SshKeyError, wireStrings, wireUint32 } from '../../src/buildkit/session/ssh/ssh-key.ts';
import { startDaemon } from '../world/daemon.ts';
import { eventually } from '../world/eventually.ts';
import { runProgram } from '../world/program.ts';
import { makeSshKey } from '../world/ssh-keys.ts';
import { makeTempDir } from '../world/temp-dir.ts';

/** Serves the agent at a Unix socket, where OpenSSH's programs find it. */
async function serve(agent: SshAgent, path: string): Promise<AsyncDisposable> {
  const server = createServer(async socket => {
    socket.on('error', () => {});
    using connection = await agent.connect(new AbortController().signal);
    for await (const message of agentMessagesIn(socket)) {
      socket.write(wireStrings(await connection.respond(message)));
    }
    socket.end();
  });
  server.listen(path);
  await new Promise(resolve => server.once('listening', resolve));
  return {
    async [Symbol.asyncDispose]() {
      await new Promise(resolve => server.close(resolve));
    },
  };
}

const openSsh = (socket: string, command: readonly string[], input?: string) =>
  runProgram(command, {
    env: { PATH: process.env.PATH, SSH_AUTH_SOCK: socket },
    ...(input === undefined ? {} : { input }),
  });

const kinds: Readonly<Record<string, readonly string[]>> = {
  Ed25519: ['-t', 'ed25519'],
  'RSA of 2048 bits': ['-t', 'rsa', '-b', '2048'],
  'RSA of 4096 bits': ['-t', 'rsa', '-b', '4096'],
  'RSA in PEM format': ['-t', 'rsa', '-b', '2048', '-m', 'PEM'],
  'RSA in PKCS #8 format': ['-t', 'rsa', '-b', '2048', '-m', 'PKCS8'],
  'ECDSA P-256': ['-t', 'ecdsa', '-b', '256'],
  'ECDSA P-384': ['-t', 'ecdsa', '-b', '384'],
  'ECDSA P-521': ['-t', 'ecdsa', '-b', '521'],
  'ECDSA P-256 in PEM format': ['-t', 'ecdsa', '-b', '256', '-m', 'PEM'],
  'ECDSA P-521 in PKCS #8 format': ['-t', 'ecdsa', '-b', '521', '-m', 'PKCS8'],
};

suite('an agent with keys', () => {
  for (const [name, options] of Object.entries(kinds)) {
    test(`${name}: ssh-add lists it, and ssh-keygen signs with it`, async () => {
      await using place = await makeTempDir('agent');
      const { path, privateKey, publicKey } = makeSshKey(place.join('key'), options);
      const socket = place.join('socket');
      await using _ = await serve(keyAgent([readSshKey(privateKey)]), socket);
      // Without the file, only the agent has the private key.
      await writeFile(path, '');
      const listed = await openSsh(socket, ['ssh-add', '-L']);
      assert.equal(listed.stdout.trim(), publicKey, listed.stderr);
      const about = ['-n', 'file'];
      const sign = ['ssh-keygen', '-Y', 'sign', '-f', `${path}.pub`, ...about];
      // The numbers of a signature sometimes begin with zeros.
      for (let round = 0; round < 20; round += 1) {
        const signed = await openSsh(socket, sign, `text ${round}`);
        assert.equal(signed.code, 0, signed.stderr);
        await writeFile(place.join('signature'), signed.stdout);
        await writeFile(place.join('allowed'), `somebody ${publicKey}\n`);
        const verify = ['ssh-keygen', '-Y', 'verify', '-f', place.join('allowed'), ...about];
        const verified = await openSsh(
          socket,
          [...verify, '-I', 'somebody', '-s', place.join('signature')],
          `text ${round}`,
        );
        assert.equal(verified.code, 0, verified.stderr);
      }
    });
  }

  test('RSA signs with SHA-256 on request, and never with SHA-1', async () => {
    await using place = await makeTempDir('agent');
    const key = readSshKey(makeSshKey(place.join('key'), ['-t', 'rsa']).privateKey);
    const data = Buffer.from('data');
    const nameIn = (signature: Buffer | undefined) => signature?.subarray(4, 16).toString();
    assert.equal(nameIn(await key.sign(data, 2)), 'rsa-sha2-256');
    assert.equal(nameIn(await key.sign(data, 4)), 'rsa-sha2-512');
    assert.equal(await key.sign(data, 0), undefined);
  });

  test('clients cannot add, remove or lock keys, or use a key that the agent does not have', async () => {
    await using place = await makeTempDir('agent');
    const own = makeSshKey(place.join('own'), ['-t', 'ed25519']);
    const other = makeSshKey(place.join('other'), ['-t', 'ed25519']);
    const socket = place.join('socket');
    await using _ = await serve(keyAgent([readSshKey(own.privateKey)]), socket);
    const attempts = [
      ['ssh-add', other.path],
      ['ssh-add', '-d', `${own.path}.pub`],
      ['ssh-add', '-D'],
      ['ssh-add', '-T', `${other.path}.pub`],
    ];
    for (const attempt of attempts) {
      assert.notEqual((await openSsh(socket, attempt)).code, 0, attempt.join(' '));
    }
    assert.equal((await openSsh(socket, ['ssh-add', '-T', `${own.path}.pub`])).code, 0);
    assert.equal((await openSsh(socket, ['ssh-add', '-L'])).stdout.trim(), own.publicKey);
  });

  test('malformed messages are refused with the same answer', async () => {
    await using place = await makeTempDir('agent');
    const key = readSshKey(makeSshKey(place.join('key'), ['-t', 'ed25519']).privateKey);
    using connection = await keyAgent([key]).connect(new AbortController().signal);
    const sign = (...parts: readonly Buffer[]) => Buffer.concat([Buffer.from([13]), ...parts]);
    const messages = [
      Buffer.from([1]),
      Buffer.from([22, 0, 0, 0, 1, 0x20]),
      Buffer.from([255]),
      sign(),
      sign(wireUint32(0xffff_ffff)),
      sign(wireStrings(key.publicKey)),
      sign(wireStrings(key.publicKey, 'data')),
      sign(wireStrings('ssh-ed25519', 'data'), wireUint32(0)),
    ];
    for (const message of messages) {
      assert.deepEqual(
        await connection.respond(message),
        Buffer.from([5]),
        message.toString('hex'),
      );
    }
    const whole = sign(wireStrings(key.publicKey, 'data'), wireUint32(0));
    assert.equal((await connection.respond(whole))[0], 14);
  });
});

suite('an agent at a socket', () => {
  test('lists its keys and signs, and accepts no other message', async () => {
    await using place = await makeTempDir('agent');
    const key = makeSshKey(place.join('key'), ['-t', 'ed25519']);
    const more = makeSshKey(place.join('more'), ['-t', 'ed25519']);
    const real = place.join('real');
    await using _daemon = startDaemon('ssh-agent', ['-D', '-a', real]);
    const add = async () => (await openSsh(real, ['ssh-add', key.path])).code === 0;
    await eventually('the agent has the key', add);
    const socket = place.join('socket');
    await using _ = await serve(socketAgent(real), socket);
    const listed = await openSsh(socket, ['ssh-add', '-L']);
    assert.ok(listed.stdout.startsWith(key.publicKey), listed.stderr);
    assert.equal((await openSsh(socket, ['ssh-add', '-T', `${key.path}.pub`])).code, 0);
    assert.notEqual((await openSsh(socket, ['ssh-add', more.path])).code, 0);
    assert.notEqual((await openSsh(socket, ['ssh-add', '-D'])).code, 0);
    assert.equal((await openSsh(real, ['ssh-add', '-L'])).stdout.trim().split('\n').length, 1);
  });

  test('a missing socket is an error of the connection', async () => {
    const agent = socketAgent('/nowhere/agent.sock');
    await assert.rejects(agent.connect(new AbortController().signal), /ENOENT/);
  });
});

suite('messages of an agent', () => {
  const read = async (limit: number, ...chunks: readonly Buffer[]) => {
    const messages: string[] = [];
    const bytes = async function* () {
      yield* chunks;
    };
    for await (const message of agentMessagesIn(bytes(), limit)) messages.push(message.toString());
    return messages;
  };
  const bytesOf = (...texts: readonly string[]) => wireStrings(...texts);

  test('arrive complete, whatever their fragmentation', async () => {
    const all = bytesOf('one', 'two', 'three');
    assert.deepEqual(await read(5, all), ['one', 'two', 'three']);
    const single = Array.from(all, byte => Buffer.from([byte]));
    assert.deepEqual(await read(5, ...single), ['one', 'two', 'three']);
    assert.deepEqual(await read(5), []);
  });

  test('that are too long, empty or truncated are errors', async () => {
    await assert.rejects(read(4, bytesOf('three')), /5 bytes/);
    await assert.rejects(read(4, wireUint32(0xffff_ffff)), /4294967295 bytes/);
    await assert.rejects(read(4, bytesOf('')), /0 bytes/);
    await assert.rejects(read(4, bytesOf('one').subarray(0, 5)), /ended within/);
    await assert.rejects(read(4, bytesOf('one').subarray(0, 2)), /ended within/);
  });
});

suite('connections of a build to its agents', () => {
  /** Opens a connection as a builder does; it stays open as long as `messages` yields. */
  const connectTo = async (
    handlers: readonly Handler[],
    messages: AsyncIterable<Buffer>,
    id = 'default',
  ) => {
    const forward = handlers.find(({ path }) => path.endsWith('/ForwardAgent'));
    assert.ok(forward);
    let responses = 0;
    await forward.handle({
      header: name => (name === 'buildkit.ssh.id' ? [id] : []),
      messages,
      send: async () => {
        responses += 1;
      },
      signal: new AbortController().signal,
    });
    return responses;
  };
  const bytesMessage = (data: Buffer) =>
    Buffer.from(toBinary(BytesMessageSchema, create(BytesMessageSchema, { data })));
  const list = bytesMessage(wireStrings(Buffer.from([11])));

  test('lead to the agent with their id only', async () => {
    const handlers = sshHandlers(new Map([['team', keyAgent([])]]));
    const once = async function* () {
      yield list;
    };
    assert.equal(await connectTo(handlers, once(), 'team'), 1);
    for (const id of ['', 'default', 'Team']) {
      await assert.rejects(connectTo(handlers, once(), id), /There is no SSH agent/);
    }
  });

  test('are at most 32 at a time', async () => {
    const handlers = sshHandlers(new Map([['default', keyAgent([])]]));
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
    const silent = async function* () {
      await isOver;
      yield* [];
    };
    const open = Array.from({ length: 32 }, () => connectTo(handlers, silent()));
    await assert.rejects(connectTo(handlers, silent()), /has 32 connections .* limit/);
    end();
    assert.equal((await Promise.all(open)).length, 32);
    assert.equal(await connectTo(handlers, silent()), 0);
  });

  test('carry at most 20,000 messages', async () => {
    const handlers = sshHandlers(new Map([['default', keyAgent([])]]));
    const messages = async function* (count: number) {
      for (let sent = 0; sent < count; sent += 1) yield list;
    };
    assert.equal(await connectTo(handlers, messages(19_999)), 19_999);
    await assert.rejects(connectTo(handlers, messages(2)), /has sent 20000 messages .* limit/);
  });
});

suite('files that are not a private key for an agent', () => {
  const refused = (file: string | Uint8Array, message: RegExp) =>
    assert.throws(
      () => readSshKey(file),
      error => error instanceof SshKeyError && message.test(error.message),
    );

  for (const format of ['RFC4716', 'PEM', 'PKCS8']) {
    test(`an encrypted key in the format ${format}`, async () => {
      await using place = await makeTempDir('agent');
      const options = ['-t', 'rsa', '-b', '2048', '-m', format];
      const { privateKey } = makeSshKey(place.join('key'), options, 'a passphrase');
      refused(privateKey, /^is encrypted: .*without a passphrase/);
    });
  }

  test('public keys, other formats, other types', async () => {
    await using place = await makeTempDir('agent');
    const { publicKey } = makeSshKey(place.join('key'), ['-t', 'ed25519']);
    refused(publicKey, /^is a public key/);
    refused('PuTTY-User-Key-File-3: ssh-ed25519\n', /PuTTY/);
    refused('', /^is not a private key/);
    refused('root:x:0:0:root:/root:/bin/sh\n', /^is not a private key/);
    refused(Buffer.alloc(30_000, 'a'), /^has more than 24576 bytes/);
    refused('-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n', /^is damaged/);
    const dsa = ['openssl', 'genpkey', '-algorithm', 'ed448'];
    const { stdout } = await runProgram(dsa, { env: process.env });
    refused(stdout, /^has the type ed448/);
    const small = ['openssl', 'genrsa', '512'];
    refused((await runProgram(small, { env: process.env })).stdout, /of 512 bits/);
  });

  test('a file with damage at any position', async () => {
    await using place = await makeTempDir('agent');
    for (const options of [
      ['-t', 'ed25519'],
      ['-t', 'ecdsa'],
      ['-t', 'rsa', '-b', '1024'],
    ]) {
      const { path, privateKey, publicKey } = makeSshKey(place.join(options.join('')), options);
      const [, body = ''] = /KEY-----\n(.*)\n-----END/s.exec(privateKey) ?? [];
      const bytes = Buffer.from(body, 'base64');
      for (let at = 0; at < bytes.length; at += 1) {
        const damaged = Buffer.from(bytes);
        damaged.writeUInt8(255 - damaged.readUInt8(at), at);
        const armour = (content: Buffer) =>
          `-----BEGIN OPENSSH PRIVATE KEY-----\n${content.toString('base64')}\n-----END OPENSSH PRIVATE KEY-----\n`;
        for (const file of [armour(damaged), armour(bytes.subarray(0, at))]) {
          try {
            // A key that is still readable is the same key, or another complete one.
            assert.ok(readSshKey(file).publicKey.length > 0, `${path} ${publicKey}`);
          } catch (error) {
            assert.ok(error instanceof SshKeyError, `${path}: ${error}`);
          }
        }
      }
    }
  });
});
