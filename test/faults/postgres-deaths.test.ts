/** PostgreSQL that crashes, is full of connections, or takes no changes, while clients work. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import pg from 'pg';
import { pushCorpus } from '../corpus/corpus.ts';
import { eventually } from '../world/eventually.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { type ContainerResponse, type Sluice, startSluice } from '../world/sluice.ts';

const crashes = 4;
const clients = 8;

suite('a server whose PostgreSQL fails', () => {
  let postgres: Postgres;
  let registry: Registry;
  let sluice: Sluice;
  let database: string;
  let names = 0;

  before(async () => {
    [postgres, registry] = await Promise.all([startPostgres(), startRegistry()]);
    await pushCorpus(registry, ['cfg:full']);
    database = await postgres.createDatabase();
    sluice = await startSluice({
      config: {
        buildkit: 'off',
        // A fast machine asks for more than the default limits allow.
        limits: { pulls: { anonymous: 'off' }, requests: { anonymous: 'off' } },
        registries: { [registry.host]: { plainHttp: true } },
      },
      env: { SLUICE_DATABASE: database },
    });
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
    await postgres?.[Symbol.asyncDispose]();
  });

  const ask = () => {
    names += 1;
    return sluice.fetch('/v1alpha2/container', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        containerImage: `${registry.host}/corpus/cfg:full`,
        containerConfig: { env: [`NAME=${names}`] },
      }),
    });
  };
  const pull = async ({ targetImage }: ContainerResponse) => {
    const address = sluice.at(targetImage, `manifests/${targetImage.split(':').at(-1)}`);
    const response = await fetch(address, { headers: { accept: '*/*' } });
    return { status: response.status, text: await response.text() };
  };
  /** Requires a refusal that says when to come back, and no cause that is nobody's business. */
  const requireOutage = (response: Response, text: string) => {
    assert.equal(response.status, 503, text);
    assert.ok(Number(response.headers.get('retry-after')) > 0);
    assert.doesNotMatch(text, /127\.0\.0\.1|sluice@|pg_|at .*\.ts/);
  };
  const isReady = async () => (await sluice.fetch('/readyz')).status === 200;
  const asAdministrator = async (...statements: readonly string[]) => {
    const client = new pg.Client(database);
    await client.connect();
    try {
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  };

  test('every acknowledged request outlives its crashes, and every other one is answered with 503', async () => {
    const acknowledged: ContainerResponse[] = [];
    let refused = 0;
    let isOver = false;
    const work = async () => {
      while (!isOver) {
        const response = await ask();
        const text = await response.text();
        if (response.status === 200) acknowledged.push(JSON.parse(text) as ContainerResponse);
        else {
          requireOutage(response, text);
          refused += 1;
        }
      }
    };
    const crashing = async () => {
      for (let crash = 0; crash < crashes && !isOver; crash += 1) {
        const before = acknowledged.length;
        const hasResponse = () => isOver || acknowledged.length > before + 2 * clients;
        await eventually('requests are answered', hasResponse);
        await postgres.crash();
        const refusedBefore = refused;
        const isRefused = () => isOver || refused > refusedBefore + clients;
        await eventually('requests are refused', isRefused);
        await postgres.start();
        await eventually('the server is ready again', isReady);
      }
      isOver = true;
    };
    try {
      await Promise.all([crashing(), ...Array.from({ length: clients }, work)]);
    } finally {
      isOver = true;
    }
    assert.ok(acknowledged.length > crashes * clients);
    for (const served of acknowledged) {
      const { status, text } = await pull(served);
      assert.equal(status, 200, text);
    }
  });

  test('without a free connection it answers 503, and goes on when there is one', async () => {
    const others: pg.Client[] = [];
    const takeFreeConnections = async () => {
      for (;;) {
        const client = new pg.Client(database);
        client.on('error', () => {});
        const isIn = await client.connect().then(
          () => true,
          () => false,
        );
        if (!isIn) return;
        others.push(client);
      }
    };
    try {
      // An ended connection counts until its process is gone, and the server may be the next to connect.
      await eventually('others have all connections but that of the lock', async () => {
        await takeFreeConnections();
        const [other] = others;
        assert.ok(other);
        await other.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice server'
             AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')`,
        );
        const { rows } = await other.query<{ max_connections: string }>('SHOW max_connections');
        return others.length === Number(rows[0]?.max_connections) - 1;
      });
      const response = await ask();
      requireOutage(response, await response.text());
      assert.equal(sluice.process.exitCode, null);
    } finally {
      await Promise.all(others.map(client => client.end()));
    }
    await eventually('requests are answered', async () => (await ask()).status === 200);
  });

  test('while it takes no changes, requests are answered with 503 and images are pulled', async () => {
    const served = (await (await ask()).json()) as ContainerResponse;
    await asAdministrator(
      'ALTER SYSTEM SET default_transaction_read_only = on',
      'SELECT pg_reload_conf()',
    );
    try {
      await eventually('changes are refused', async () => {
        const response = await ask();
        const text = await response.text();
        if (response.status === 200) return false;
        requireOutage(response, text);
        return true;
      });
      const { status, text } = await pull(served);
      assert.equal(status, 200, text);
    } finally {
      await asAdministrator(
        'SET default_transaction_read_only = off',
        'ALTER SYSTEM RESET default_transaction_read_only',
        'SELECT pg_reload_conf()',
      );
    }
    await eventually('requests are answered', async () => (await ask()).status === 200);
    await eventually('the server is ready again', isReady);
  });
});
