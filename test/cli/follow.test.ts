/** Following a log over connections that break. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { sluiceCommand, sluiceProgram } from '../world/sluice-command.ts';

/** Runs `sluice logs -f` against a server with these responses. */
async function follow(listener: RequestListener) {
  const server = createServer(listener);
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    return await sluiceCommand(['logs', '-f', 'abc_1'], {
      SLUICE_SERVER: `http://127.0.0.1:${port}`,
    });
  } finally {
    server.close();
  }
}

test('after a lost connection the log continues at the same position', async () => {
  const log = '#1 first\n#1 DONE 0.1s\n\n#2 second\n#2 DONE 0.2s\n';
  let connections = 0;
  const result = await follow((request, response) => {
    if (request.url?.endsWith('/status')) {
      const isOver = connections >= 3;
      response.end(JSON.stringify(isOver ? { succeeded: true } : { status: 'PENDING' }));
      return;
    }
    connections += 1;
    if (connections === 3) {
      response.end(log);
      return;
    }
    response.write(log.slice(0, connections * 15), () => response.socket?.destroy());
  });
  assert.deepEqual([result.code, result.stdout, connections], [0, log, 3], result.stderr);
});

test('a command ends without a message when the reader of its output has ended', async () => {
  const server = createServer((_, response) => {
    const more = () => {
      while (response.writable && response.write('#1 line\n'.repeat(1000)));
    };
    response.on('drain', more);
    more();
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    for (const args of [
      ['logs', 'abc_1'],
      ['logs', '-f', 'abc_1'],
    ]) {
      const child = spawn(process.execPath, [sluiceProgram, ...args], {
        env: { PATH: process.env.PATH, SLUICE_SERVER: `http://127.0.0.1:${port}` },
      });
      const message = text(child.stderr);
      child.stdout.once('data', () => child.stdout.destroy());
      const [code] = await once(child, 'exit');
      assert.deepEqual([code, await message], [141, '']);
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('states and messages of the server are shown unchanged', async () => {
  const result = await follow((_, response) => {
    response.writeHead(404).end(JSON.stringify({ message: 'There is no such build' }));
  });
  assert.deepEqual([result.code, result.stderr], [1, 'There is no such build\n']);
});
