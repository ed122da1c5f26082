import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { boundMs } from '../world/longest-block.ts';
import { startWatchedSluice, type WatchedSluice } from '../world/watched-sluice.ts';
import { assertApiFault, call } from './http-client.ts';

// The bound that is held to: no request keeps others from theirs for longer than this, whatever is in it.
const longestTurnMs = 50;
const MiB = 1024 * 1024;

let server: WatchedSluice;

before(async () => {
  const off = { anonymous: 'off', authenticated: 'off' };
  server = await startWatchedSluice({ config: { limits: { requests: off, builds: off } } });
  // Code that runs for the first time is compiled, which takes time too.
  for (let round = 0; round < 20; round += 1) {
    await send({ ...dockerfile('ARG A=b\nFROM alpine:$A\nRUN <<E\na\nE'), dryRun: true });
    await send({ ...condaFile('dependencies:\n- a=1\n- pip: [b]'), dryRun: true });
    await send({ packages: { type: 'CONDA', entries: ['a=1'] }, dryRun: true });
    await send({ ...definition('Bootstrap: docker\nFrom: alpine\n%post\na\n'), dryRun: true });
  }
});

after(() => server[Symbol.asyncDispose]());

const base64 = (text: string) => Buffer.from(text).toString('base64');
const dockerfile = (text: string) => ({ containerFile: base64(text) });
const condaFile = (text: string) => ({ condaFile: base64(text) });
const definition = (text: string) => ({
  ...dockerfile(text),
  format: 'sif',
  freeze: true,
  buildRepository: '127.0.0.1:1/a/b',
});
const texts = (count: number, text: (position: number) => string) =>
  Array.from({ length: count }, (_, position) => text(position));
const times = (count: number, text: string) => text.repeat(count);

function send(body: object | string | Buffer) {
  const isText = typeof body === 'string' || Buffer.isBuffer(body);
  return call(`${server.sluice.url}/v1alpha2/container`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: isText ? body : JSON.stringify(body),
  });
}

/** Sends the body and returns its response, once the event loop has proved to be free all the time. */
function sendWatched(name: string, body: object | string | Buffer) {
  return watched(name, () => send(body));
}

async function watched(name: string, ask: () => ReturnType<typeof call>) {
  // Compilation and collection of garbage fall on some request or other: the second try is without them.
  const longest: number[] = [];
  for (let tried = 0; tried < 3; tried += 1) {
    await server.turns();
    const reply = await ask();
    const { longestMs } = await server.turns();
    if (longestMs <= boundMs(longestTurnMs)) return reply;
    longest.push(longestMs);
  }
  return assert.fail(`${name} holds the event loop for ${longest} ms`);
}

const refused: Readonly<Record<string, readonly [() => object | string | Buffer, RegExp]>> = {
  '1.6 million packages': [
    () => `{"packages":{"type":"CONDA","entries":["a"${times(1_600_000, ',"a=1"')}]}}`,
    /The body has more than 20000 values: send less in one request/,
  ],
  '3000 packages': [
    () => ({ packages: { type: 'CONDA', entries: texts(3000, at => `p${at}`) } }),
    /'packages.entries' has 3000 entries, at most 2000 are allowed/,
  ],
  'long packages': [
    () => ({ packages: { type: 'CONDA', entries: texts(1000, () => `a=${times(8000, '1')}`) } }),
    /'packages': entries, channels and commands have 8002000 characters in total/,
  ],
  '400,000 named contexts': [
    () =>
      `{"containerFile":"RlJPTSBh","namedContexts":{"a":"b"${texts(400_000, at => `,"a${at}":"b"`).join('')}}}`,
    /more than 20000 values/,
  ],
  '200 named contexts': [
    () => ({
      ...dockerfile('FROM a'),
      namedContexts: Object.fromEntries(texts(200, at => `a${at}`).map(name => [name, 'b'])),
    }),
    /'namedContexts' has 200 entries, at most 100 are allowed/,
  ],
  '1.1 million unknown members': [
    () => `{"a":1${texts(1_100_000, at => `,"k${at}":1`).join('')}}`,
    /more than 20000 values/,
  ],
  '1.2 million variables': [
    () => `{"containerImage":"a","containerConfig":{"env":["A=b"${times(1_200_000, ',"A=b"')}]}}`,
    /more than 20000 values/,
  ],
  'an environment longer than any program can have': [
    () => ({
      containerImage: 'a',
      containerConfig: { env: texts(20, at => `A${at}=${times(100_000, 'a')}`) },
    }),
    /entrypoint, cmd and env have 2000\d+ characters in total, at most 1048576/,
  ],
  '8 million lists in each other': [
    () => times(8 * MiB, '[') + times(8 * MiB - 10, ']'),
    /lists and objects nested more than 32 deep/,
  ],
  '8 million escaped characters': [
    () => `{"a":"${times(8 * MiB - 10, '\\n')}"}`,
    /more than 1000000 escaped characters/,
  ],
  'text that is not UTF-8': [
    () => Buffer.concat([Buffer.from('{"a":"'), Buffer.alloc(16 * MiB - 10, 0xff)]),
    /not valid JSON: it is not UTF-8/,
  ],
  'an image name of 14 MB': [
    () => ({ containerImage: times(7 * MiB, 'a/') }),
    /'containerImage' is longer than 4096 characters/,
  ],
  'variables that double': [
    () => dockerfile(`ARG A=xxxxxxxxxx\n${times(40, 'ARG A=$A$A\n')}FROM $A`),
    /line \d+: variables are too long, or there are too many of them/,
  ],
  'patterns of many stars': [
    () => dockerfile(`ARG A=${times(1000, 'a')}\nARG B=\${A//${times(500, '*a')}b/x}\nFROM a`),
    /too long, or there are too many of them/,
  ],
  'a Dockerfile of 40,000 instructions': [
    () => dockerfile(`FROM a\n${times(40_000, 'RUN a\n')}`),
    /'containerFile' has more than 10000 lines: put/,
  ],
  '2400 stages that copy from each other': [
    () => dockerfile(texts(2400, at => `FROM 0 AS a${at}\nCOPY --from=a${at - 1} a b\n`).join('')),
    /it has more than 2000 instructions/,
  ],
  'a Dockerfile of 1000 images': [
    () => dockerfile(`FROM a\n${texts(1000, at => `COPY --from=alpine${at} a b\n`).join('')}`),
    /line 101: it uses more than 100 images/,
  ],
  'a list of 62,000 packages in YAML': [
    () => condaFile(`dependencies:\n${times(62_000, '- a\n')}`),
    /'condaFile' has more than 10000 lines/,
  ],
  '80,000 mappings in YAML': [
    () => condaFile(`dependencies: [${times(80_000, '{},')}]`),
    /more than 2500 line ends, list marks, colons and brackets/,
  ],
  'deep YAML': [() => condaFile(`dependencies: ${times(200_000, '[')}`), /nested too deep/],
  'deep YAML without brackets': [
    () => condaFile(`dependencies:\n${times(1200, '- ')}a`),
    /nested too deep/,
  ],
  'deep YAML by indentation': [
    () =>
      condaFile(
        Array.from({ length: 110 }, (_, at) => `${times(38 * at, ' ')}${times(19, '- ')}`).join(
          '\n',
        ),
      ),
    /nested too deep/,
  ],
  'lists as keys of lists in YAML': [
    () =>
      condaFile(
        Array.from({ length: 100 }, (_, at) => `${times(10 * at, ' ')}${times(5, '? ')}`).join(
          '\n',
        ),
      ),
    /nested too deep/,
  ],
  'quotes in YAML': [() => condaFile(`dependencies:\n- ${times(250_000, '"')}`), /or 4000 quotes/],
  'brackets in texts of deep YAML': [() => condaFile(times(800, '["]",')), /nested too deep/],
  'aliases that multiply': [
    () =>
      condaFile(
        `a: &a [x,x,x,x,x,x,x,x,x]\n${[...'bcdefghij'].map((name, at) => `${name}: &${name} [${times(9, `*${'abcdefghi'[at]},`)}]\n`).join('')}dependencies: *j\n`,
      ),
    /not a YAML file that can be read: Excessive alias count/,
  ],
  'a definition file of 9900 files': [
    () => definition(`Bootstrap: docker\nFrom: alpine\n%files\n${times(9900, 'a b\n')}`),
    /'%files' has more than 1000 lines/,
  ],
  'a definition file of 4900 stages': [
    () => definition(times(4900, 'Bootstrap: docker\nFrom: alpine\n')),
    /it has more than 100 stages/,
  ],
};

for (const [name, [make, message]] of Object.entries(refused)) {
  test(`refused early: ${name}`, async () => {
    assertApiFault(await sendWatched(name, make()), 400, message);
  });
}

const taken: Readonly<Record<string, () => object>> = {
  '2000 packages': () => ({
    packages: { type: 'CONDA', entries: texts(2000, at => `p${at}=1.2`) },
  }),
  '1200 packages in YAML': () =>
    condaFile(`dependencies:\n${texts(1200, at => `- p${at}=1.2\n`).join('')}`),
  'a Dockerfile of 1900 instructions': () =>
    dockerfile(`FROM alpine\n${times(1900, 'RUN a very small script, but one of many\n')}`),
  'a Dockerfile with a file of 200 KB in it': () =>
    dockerfile(`FROM alpine\nCOPY <<EOF /a\n${times(5000, `${times(40, 'a')}\n`)}EOF\n`),
  'a definition file with a script of 9000 lines': () =>
    definition(`Bootstrap: docker\nFrom: alpine\n%post\n${times(9000, 'a script of many\n')}`),
};

for (const [name, make] of Object.entries(taken)) {
  test(`accepted without delay for others: ${name}`, async () => {
    const reply = await sendWatched(name, { ...make(), dryRun: true });
    assert.equal(reply.status, 200, reply.body.toString());
  });
}

const manyParameters = `a=b&${times(3900, 'c=d&')}`;

for (const path of [
  '/readyz',
  '/v1alpha1/builds/0000000000000000_1/logs',
  '/v1alpha2/metrics/pulls',
  '/v2/public/a/tags/list',
  '/v2/token',
]) {
  test(`a request line of 16 KB delays nobody: ${path}`, async () => {
    await watched(path, () => call(`${server.sluice.url}${path}?${manyParameters}`));
  });
}

test('a request line of 16 KB delays nobody: an inspection', async () => {
  const reply = await watched('the inspection', () =>
    call(`${server.sluice.url}/v1alpha1/inspect?platform=a&${manyParameters}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"containerImage":"127.0.0.1:1/a"}',
    }),
  );
  assertApiFault(reply, 400, /Unsupported container platform 'a'/);
});

const forms: Readonly<Record<string, readonly [string, number]>> = {
  'half a million fields': [times(524_288, 'a&'), 413],
  'fields without a text': [times(300_000, '&'), 400],
  'many packages': [times(30_000, 'package=a&'), 400],
  'a million blanks': [times(MiB, '+'), 413],
  'a Dockerfile of blanks': [`dockerfile=${times(260_000, '+')}`, 400],
  'a megabyte without a name': [times(MiB, '%'), 400],
  'more than a megabyte': [times(MiB + 1, 'a'), 413],
};
for (const [name, [body, status]] of Object.entries(forms)) {
  test(`a form of ${name} delays nobody`, async () => {
    for (const path of ['/view/login', '/view/ask/plan']) {
      const reply = await watched(path, () =>
        call(server.sluice.url + path, {
          method: 'POST',
          headers: {
            'content-type': 'application/x-www-form-urlencoded',
            'sec-fetch-site': 'same-origin',
          },
          body,
        }),
      );
      // A form without the expected fields is checked like an empty one.
      if (path === '/view/login') assert.equal(reply.status, status);
      else assert.ok(reply.status === status || reply.status === 200, `${reply.status}`);
    }
  });
}

test('scopes of 64 KB in a token request delay nobody', async () => {
  for (const scope of [
    `registry:catalog:${times(32_000, ',*')}%0A`,
    times(2000, 'repository:a:pull+'),
  ]) {
    const reply = await watched('the scopes', () =>
      call(`${server.sluice.url}/v2/token`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: `grant_type=password&scope=${scope}`,
      }),
    );
    assert.equal(reply.status, 200, reply.body.toString());
  }
});

test('a layer of 9 MiB in a request delays nobody', async () => {
  const layer = gzipSync(tarOf(randomBytes(9 * MiB)), { level: 0 });
  const location = `data:${layer.toString('base64')}`;
  const reply = await sendWatched('the layer', {
    containerImage: '127.0.0.1:1/a',
    containerConfig: { layers: [{ location }] },
  });
  // The server accepted it: the image is the problem.
  assertApiFault(reply, 400, /'127.0.0.1:1' is at a loopback, private or otherwise closed/);
});

/** A tar file of one file. */
function tarOf(content: Buffer): Buffer {
  const header = Buffer.alloc(512);
  header.write('file');
  header.write('0000644\0', 100);
  header.write(`${content.length.toString(8).padStart(11, '0')}\0`, 124);
  header.write('        ', 148);
  header.write('0', 156);
  header.write('ustar\x0000', 257, 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return Buffer.concat([header, content, Buffer.alloc(1024 + (512 - (content.length % 512)))]);
}
