/** Who sees what of an image: signatures by real tools, viewers with different rights, registries that lie. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { type ScriptedUpstream, startScriptedUpstream } from '../faults/scripted-upstream.ts';
import { assertSuccess } from '../integration/served.ts';
import { copy, storeLogin } from '../world/clients.ts';
import { newAccessToken } from '../world/platform-user.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { checkLooks, startBrowser, type TestBrowser } from './browser-world.ts';

const admin = { username: 'admin', password: 'open sesame' };
const hostile = `<script>alert(1)</script>"'\u202e\u0007\u001b[31m${'x'.repeat(10_000)}`;
let browser: TestBrowser;
let open: Registry;
let closed: Registry;
let liar: ScriptedUpstream;
let sluice: Sluice;
let root: Root;
let asAda: Readonly<Record<string, string>>;
let eve: string;

before(async () => {
  [browser, open, closed, liar] = await Promise.all([
    startBrowser(),
    startRegistry(),
    startRegistry({ auth: 'basic' }),
    startScriptedUpstream(),
  ]);
  await Promise.all([pushCorpus(open, ['cfg:full']), pushCorpus(closed, ['cfg:full'])]);
  sluice = await startSluice({
    config: {
      accounts: { admin: admin.password },
      registries: Object.fromEntries(
        [open, closed, liar].map(({ host }) => [host, { plainHttp: true }]),
      ),
    },
  });
  const ada = await newAccessToken(sluice, { ...admin, name: admin.username }, 'ada@example.org');
  eve = await newAccessToken(sluice, { ...admin, name: admin.username }, 'eve@example.org');
  asAda = { authorization: `Bearer ${ada}` };
  for (const { host: registry, username: userName, password } of [
    closed,
    { ...admin, host: sluice.host },
  ]) {
    const kept = await sluice.fetch('/platform/credentials', {
      method: 'POST',
      headers: { ...asAda, 'content-type': 'application/json' },
      body: JSON.stringify({
        credentials: { provider: 'container-reg', keys: { registry, userName, password } },
      }),
    });
    assert.ok(kept.ok, await kept.text());
  }
  root = await openRoot('trixie');
  await storeLogin(root, sluice.host, admin);
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await root?.close();
  await sluice?.stop();
  await Promise.all([open?.stop(), closed?.stop(), liar?.stop()]);
});

const inspect = (image: string) => `/view/inspect?image=${encodeURIComponent(image)}`;

async function read(path: string, headers: Readonly<Record<string, string>> = {}) {
  const begin = performance.now();
  const response = await sluice.fetch(path, { headers: { accept: 'text/html', ...headers } });
  const text = await response.text();
  return { status: response.status, text, ms: performance.now() - begin };
}

test('signature, bill of materials and provenance are listed, by tags and by the API of referrers', async () => {
  const env = { COSIGN_PASSWORD: 'only for tests' };
  assertSuccess(
    await root.exec(['cosign', 'generate-key-pair', '--output-key-prefix', '/tmp/key'], { env }),
  );
  const files = [
    ['bill.json', 'application/spdx+json'],
    ['made.json', 'application/vnd.in-toto.provenance+json'],
  ] as const;
  for (const [name] of files) await writeFile(join(root.directory, 'tmp', name), '{}\n');
  const source = `${open.host}/corpus/cfg:full`;
  const hosted = `${sluice.host}/team/signed:1`;
  assertSuccess(await copy(root, 'oras', source, hosted));
  for (const image of [source, hosted]) {
    for (const [name, type] of files) {
      const attach = ['oras', 'attach', '--plain-http', '--artifact-type', type, image];
      assertSuccess(await root.exec(['sh', '-c', 'cd /tmp && exec "$@"', 'sh', ...attach, name]));
    }
    const about = await read(inspect(image), asAda);
    const digest = /sha256:[0-9a-f]{64}/.exec(about.text)?.[0] ?? '';
    const byDigest = `${image.replace(/:[^/:]*$/, '')}@${digest}`;
    const sign = ['cosign', 'sign', '--yes', '--allow-http-registry', '--tlog-upload=false'];
    assertSuccess(await root.exec([...sign, '--key', '/tmp/key.key', byDigest], { env }));
    const { text } = await read(inspect(image), asAda);
    for (const kind of ['Signature', 'Bill of materials', 'Provenance']) {
      assert.match(text, new RegExp(`<td>${kind}</td>`), image);
    }
    const links = [...text.matchAll(/<td><a href="(\/view\/inspect\?[^"]+)"/g)];
    assert.equal(links.length, 3, image);
    for (const [, link = ''] of links) {
      const artifact = await read(link.replaceAll('&amp;', '&'), asAda);
      assert.equal(artifact.status, 200, link);
    }
  }
  await checkLooks(browser, sluice.url + inspect(source), 'inspect-signed');
});

test('an image that a viewer may not pull looks like one that does not exist', async () => {
  const secret = `${closed.host}/corpus/cfg:full`;
  const absent = `${closed.host}/corpus/no0:full`;
  assert.equal((await read(inspect(secret), asAda)).status, 200);
  const hosted = `${sluice.host}/team/secret:1`;
  assertSuccess(await copy(root, 'oras', `${open.host}/corpus/cfg:full`, hosted));
  assert.equal((await read(inspect(hosted), asAda)).status, 200);

  const viewers: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    'another user': { authorization: `Bearer ${eve}` },
    nobody: {},
  };
  for (const [who, headers] of Object.entries(viewers)) {
    for (const [there, nowhere] of [
      [secret, absent],
      [hosted, `${sluice.host}/team/absent:1`],
    ] as const) {
      // A busy machine delays some series. What can be measured is in each.
      let difference = Number.POSITIVE_INFINITY;
      for (let series = 0; series < 5 && difference >= 25; series += 1) {
        const times: Record<'there' | 'nowhere', number[]> = { there: [], nowhere: [] };
        for (let round = 0; round < 15; round += 1) {
          const one = await read(inspect(there), headers);
          const other = await read(inspect(nowhere), headers);
          assert.equal(one.status, other.status, who);
          assert.notEqual(one.status, 200, who);
          assert.equal(withoutNames(one.text, there), withoutNames(other.text, nowhere), who);
          times.there.push(one.ms);
          times.nowhere.push(other.ms);
        }
        difference = Math.abs(median(times.there) - median(times.nowhere));
      }
      assert.ok(difference < 25, `${who} can measure it: ${difference} ms`);
    }
  }
});

test('a token that is not known, wrong or unusual gets one answer', async () => {
  const made = await sluice.request({ containerImage: `${open.host}/corpus/cfg:full` });
  const token = made.containerToken;
  const responses = await Promise.all(
    [`${token.slice(0, -1)}${token.endsWith('a') ? 'b' : 'a'}`, 'a'.repeat(token.length)].map(
      async wrong => {
        const { status, text } = await read(`/view/containers/${wrong}`);
        return { status, text: withoutNames(text, wrong) };
      },
    ),
  );
  assert.equal(responses[0]?.status, 404);
  assert.deepEqual(responses[0], responses[1]);
});

test('errors of a hostile registry are texts, and short', async () => {
  const image = liar.image('team/tools');
  const made = await sluice.request({ containerImage: image.name });
  for (const status of [400, 401, 403, 404, 429, 500]) {
    liar.on('/v2/', (_request, response) => {
      response.writeHead(status, {
        'content-type': 'application/json',
        'www-authenticate': `Basic realm="${hostile.slice(0, 25).replaceAll('"', '')}"`,
      });
      response.end(
        JSON.stringify({ errors: [{ code: hostile, message: hostile, detail: hostile }] }),
      );
    });
    const name = `${liar.host}/team/other${status}:1`;
    const plan = `/?${new URLSearchParams({ by: 'image', image: name, plan: '1' })}`;
    for (const path of [inspect(name), plan, `/view/containers/${made.containerToken}`]) {
      const { text } = await read(path);
      assert.match(text, /class="failure"|class="stack"/, `${status} ${path}`);
      assert.doesNotMatch(text, /<script>alert|\p{Cc}(?<![\n\t])|\u202e/u, `${status} ${path}`);
      assert.ok(text.length < 20_000, `${status} ${path}: ${text.length} characters`);
    }
  }
});

/** Removes the name, and what is new in every response. */
function withoutNames(text: string, name: string): string {
  const repository = name.replace(/:[^/:]*$/, '');
  return text
    .replaceAll(/nonce="[^"]+"|Error ID: <code>\w+/g, '')
    .replaceAll(name, 'NAME')
    .replaceAll(encodeURIComponent(name), 'NAME')
    .replaceAll(repository, 'REPOSITORY')
    .replaceAll(repository.slice(repository.indexOf('/') + 1), 'PATH');
}

function median(times: readonly number[]): number {
  return times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? 0;
}
