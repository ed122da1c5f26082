/** How often a server waits for PostgreSQL: the table of ADR 46 holds. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';
import { pushCorpus } from '../corpus/corpus.ts';
import { basic } from '../hosted/push-client.ts';
import { type CountingProxy, startCountingProxy } from '../world/counting-proxy.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerAnswer, type Sluice, startSluice } from '../world/sluice.ts';
import { admin } from './hosted.ts';

const page = readFileSync('docs/adr/0046-one-set-of-statements.md', 'utf8');
const attempts = [1, 2, 3];

suite('round trips to PostgreSQL', () => {
  let postgres: Postgres;
  let proxy: CountingProxy;
  let registry: Registry;
  let sluice: Sluice;

  before(async () => {
    [postgres, registry] = await Promise.all([startPostgres(), startRegistry()]);
    proxy = await startCountingProxy(await postgres.createDatabase());
    await pushCorpus(registry, ['cfg:full']);
    sluice = await startSluice({
      config: {
        accounts: { [admin.username]: admin.password },
        buildkit: 'off',
        registries: { [registry.host]: { plainHttp: true } },
      },
      env: { SLUICE_DATABASE: proxy.url },
    });
    // Some are due to the first request only.
    await request('first');
  });
  after(async () => {
    await sluice?.stop();
    await proxy?.[Symbol.asyncDispose]();
    await registry?.stop();
    await postgres?.[Symbol.asyncDispose]();
  });

  const request = (name: string): Promise<ContainerAnswer> =>
    sluice.request({
      containerImage: `${registry.host}/corpus/cfg:full`,
      containerConfig: { env: [`NAME=${name}`] },
    });
  const manifest = async ({ targetImage }: ContainerAnswer) => {
    const address = sluice.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`);
    const answer = await fetch(address, { headers: { accept: '*/*' } });
    assert.equal(answer.status, 200);
    return (await answer.json()) as { layers: readonly { digest: string }[] };
  };
  const blob = async ({ targetImage }: ContainerAnswer, digest: string) => {
    const answer = await fetch(sluice.at(targetImage, `blobs/${digest}`));
    assert.equal(answer.status, 200);
    await answer.arrayBuffer();
  };
  /** Regular work may come between: the least of some attempts counts. */
  const atMost = async (
    row: string,
    work: (attempt: number) => Promise<unknown>,
    times = attempts,
  ) => {
    const limit = Number(new RegExp(`^\\| ${row} \\| (\\d+) \\|$`, 'm').exec(page)?.[1]);
    assert.ok(Number.isInteger(limit), `the table has a row: ${row}`);
    const counts: number[] = [];
    for (const attempt of times) {
      const begin = proxy.trips();
      await work(attempt);
      counts.push(proxy.trips() - begin);
    }
    assert.ok(Math.min(...counts) <= limit, `${row}: ${counts}, and the table says ${limit}`);
  };

  test('are those of the table', async () => {
    const answers: ContainerAnswer[] = [];
    await atMost('container request', async attempt => {
      answers.push(await request(String(attempt)));
    });
    const [first] = answers;
    assert.ok(first);
    await atMost('manifest, first pull', async attempt => {
      await manifest(answers[attempt - 1] ?? first);
    });
    await atMost('manifest, later pull', () => manifest(first));
    const digest = (await manifest(first)).layers[0]?.digest ?? '';
    await atMost('blob', () => blob(first, digest));
    const { username, password } = admin;
    const to = { url: sluice.url, username, password };
    await atMost('push of an image with all its blobs', () => pushCorpus(to, ['cfg:full']), [1]);
    await atMost('manifest of a hosted repository', async () => {
      const headers = { ...basic(username, password), accept: '*/*' };
      const answer = await sluice.fetch('/v2/corpus/cfg/manifests/full', { headers });
      assert.equal(answer.status, 200, await answer.text());
    });
  });
});
