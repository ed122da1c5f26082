/** `sluice migrate` with every table, strange values, interruptions and occupied places. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import pg from 'pg';
import { describeTables } from '../../src/storage/moving/move-rows.ts';
import { openPostgresSide } from '../../src/storage/moving/postgres-side.ts';
import { type Database, openDatabase } from '../../src/storage/rows/database.ts';
import { openPostgres } from '../../src/storage/rows/postgres/postgres-database.ts';
import { eventually } from '../world/eventually.ts';
import { fillDatabase } from '../world/many-rows.ts';
import { type Postgres, startPostgres } from '../world/postgres.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';

interface Report {
  readonly tables: readonly { table: string; rows: number; checksum: string }[];
  readonly wasThere: boolean;
  readonly kept: string | null;
}

suite('moving rows', () => {
  let postgres: Postgres;
  let directory: TempDir;
  let sites = 0;

  before(async () => {
    postgres = await startPostgres();
    directory = await makeTempDir('move-rows');
  });
  after(async () => {
    await directory?.remove();
    await postgres?.[Symbol.asyncDispose]();
  });

  /** Makes a data directory with content and rows. */
  const site = async (fill: (database: Database) => void): Promise<string> => {
    sites += 1;
    const data = directory.join(`site-${sites}`);
    await mkdir(join(data, 'content', 'blobs'), { recursive: true });
    await writeFile(join(data, 'content', 'id'), `id-${sites}`);
    const database = openDatabase(join(data, 'sluice.db'));
    database.prepare('INSERT INTO data_directory (id) VALUES (?)').run(`id-${sites}`);
    fill(database);
    await database.end();
    return data;
  };
  const migrate = (from: string, to: string, ...more: string[]) =>
    sluiceCommand(['migrate', '--from', from, '--to', to, ...more]);
  const moved = async (from: string, to: string): Promise<Report> => {
    const { code, stdout, stderr } = await migrate(from, to, '--json');
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout) as Report;
  };
  const connected = async (url: string) => {
    const client = new pg.Client(url);
    await client.connect();
    return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
  };
  const refused = async (from: string, to: string, why: RegExp): Promise<void> => {
    const { code, stderr } = await migrate(from, to);
    assert.equal(code, 1, stderr);
    assert.match(stderr, why);
  };
  const user = (database: Database, email: string) =>
    database.prepare('INSERT INTO users (email, created_at) VALUES (?, 1)').run(email);

  test('every table and value goes to PostgreSQL and back', async () => {
    const tables = await describeTables();
    const data = await site(database => {
      fillEachTable(database);
      user(database, 'removed@example.org');
      database.prepare("DELETE FROM users WHERE email = 'removed@example.org'").run();
    });
    const before = dump(join(data, 'sluice.db'), tables);
    const url = await postgres.createDatabase();
    const there = await moved(`sqlite:${data}`, url);
    assert.deepEqual(
      there.tables.filter(({ rows }) => rows === 0),
      [],
      'the test has a row of each table',
    );
    assert.match(there.kept ?? '', /sluice\.db\.moved-\d{8}T\d{6}Z$/);
    assert.deepEqual(
      (await readdir(data)).filter(name => name.startsWith('sluice.db')),
      [there.kept?.split('/').at(-1)],
    );
    {
      // The sums are those of the rows, and triggers and numbers go on.
      await using client = await connected(url);
      const { rows } = await client.query("SELECT value FROM sums WHERE name = 'users'");
      await client.query("INSERT INTO users (email, created_at) VALUES ('new@example.org', 1)");
      const sum = await client.query("SELECT value FROM sums WHERE name = 'users'");
      assert.equal(Number(sum.rows[0].value), Number(rows[0].value) + 1);
      const added = await client.query("SELECT id FROM users WHERE email = 'new@example.org'");
      const last = await client.query('SELECT max(id) AS id FROM users WHERE id <> $1', [
        added.rows[0].id,
      ]);
      assert.equal(Number(added.rows[0].id), Number(last.rows[0].id) + 2, 'no number comes twice');
      await client.query("DELETE FROM users WHERE email = 'new@example.org'");
    }
    const back = await moved(url, `sqlite:${data}`);
    assert.deepEqual(back.tables, there.tables);
    assert.equal(back.kept, null);
    assert.deepEqual(dump(join(data, 'sluice.db'), tables), before);
    const database = openDatabase(join(data, 'sluice.db'));
    const { lastInsertRowid } = user(database, 'last@example.org');
    const highest = database.prepare("SELECT MAX(id) FROM users WHERE email <> 'last@example.org'");
    assert.equal(Number(lastInsertRowid), Number(highest.pluck().get()) + 3);
    await database.end();
  });

  test('text with U+0000 or bytes that are not UTF-8 goes as PostgreSQL stores it', async () => {
    const data = await site(database => {
      user(database, 'a\0b@example.org');
      database
        .prepare("INSERT INTO users (email, created_at) VALUES (CAST(x'c3ff40' AS TEXT), 1)")
        .run();
    });
    const url = await postgres.createDatabase();
    await moved(`sqlite:${data}`, url);
    await using client = await connected(url);
    const { rows } = await client.query('SELECT email FROM users');
    assert.deepEqual(
      rows.map(({ email }) => email),
      ['a\ufffdb@example.org', '\ufffd\ufffd@'],
    );
  });

  test('documents with escapes that PostgreSQL has no character for are moved', async () => {
    const odd = ['\0', '\ud800', 'a\udc00b', '\u{1f4e6}', '\\u0000'];
    const data = await site(database => {
      const insert = database.prepare(
        'INSERT INTO requests (token_hash, created_at, expires_at, needs, body) VALUES (?, 1, 2, ?, ?)',
      );
      for (const [at, text] of odd.entries()) {
        insert.run(
          Buffer.from([at]),
          Buffer.alloc(0),
          JSON.stringify({ env: [text], buildId: `b${at}` }),
        );
      }
    });
    const url = await postgres.createDatabase();
    await moved(`sqlite:${data}`, url);
    await using client = await connected(url);
    const { rows } = await client.query(
      `SELECT body, json_extract(body, '$.buildId') AS build_id FROM requests ORDER BY token_hash`,
    );
    for (const [at, { body, build_id }] of rows.entries()) {
      assert.deepEqual(JSON.parse(body), { env: [odd[at]], buildId: `b${at}` });
      assert.equal(build_id, `b${at}`);
    }
  });

  test('a value of the wrong type and a name that PostgreSQL has twice are named, and nothing is moved', async () => {
    const url = await postgres.createDatabase();
    const wrong = await site(database =>
      database.prepare("INSERT INTO users (email, created_at) VALUES ('a@example.org', 1.5)").run(),
    );
    await refused(
      `sqlite:${wrong}`,
      url,
      /table users has a number that is not an integer in its column created_at/,
    );
    const twice = await site(database => {
      const insert = database.prepare('INSERT INTO workspaces (name, created_at) VALUES (?, 1)');
      for (const name of ['Été', 'été']) insert.run(name);
    });
    await refused(`sqlite:${twice}`, url, /rejects rows of the table workspaces .*duplicate key/);
    assert.ok(existsSync(join(twice, 'sluice.db')));
    await using client = await connected(url);
    assert.equal((await client.query('SELECT 1 FROM data_directory')).rowCount, 0);
  });

  test('places that are used, filled, newer or wrong are refused', async () => {
    const data = await site(database => user(database, 'a@example.org'));
    const url = await postgres.createDatabase();
    {
      const server = await openPostgres(url, { isServer: true });
      await refused(`sqlite:${data}`, url, /A server uses PostgreSQL at 127\.0\.0\.1/);
      await server.end();
    }
    await using client = await connected(url);
    await client.query("INSERT INTO users (email, created_at) VALUES ('other@example.org', 1)");
    await refused(`sqlite:${data}`, url, /has other rows already \(users\)/);
    await client.query('UPDATE sluice_schema SET version = version + 1');
    await refused(`sqlite:${data}`, url, /start the newer version that wrote it/);
    await refused(`sqlite:${data}`, `${url}_absent`, /does not exist \(3D000\)/);
    await refused(`sqlite:${directory.join('absent')}`, url, /absent does not exist/);
    const newer = await site(database => database.pragma('user_version = 1000'));
    await refused(`sqlite:${newer}`, url, /has schema 1000/);
    for (const [from, to] of [
      [url, url],
      [`sqlite:${data}`, `sqlite:${data}`],
      ['mysql://user:secret@host/name', url],
      ['postgres://user:12?secret@host/name', `sqlite:${data}`],
      ['postgres://user:12#secret@host/name', `sqlite:${data}`],
    ] as const) {
      const { code, stderr } = await migrate(from, to);
      assert.equal(code, 2, stderr);
      assert.ok(!stderr.includes('secret'));
    }
  });

  test('a message about a rejected row has none of its values', async () => {
    const data = await site(database => {
      const { lastInsertRowid } = user(database, 'a@example.org');
      const insert = `INSERT INTO credentials (id, user, name, provider, shown, sealed, created_at)
        VALUES (NULL, ?, 'name', 'p', 's', 'secret-of-somebody', 1)`;
      database.prepare(insert).run(lastInsertRowid);
    });
    const { code, stderr } = await migrate(`sqlite:${data}`, await postgres.createDatabase());
    assert.equal(code, 1, stderr);
    assert.match(stderr, /rejects rows of the table \S+ \(null value in column/);
    assert.doesNotMatch(stderr, /secret-of-somebody|Failing row/);
  });

  test('rows are read in batches that fit into memory, whatever comes first', async () => {
    const url = await postgres.createDatabase();
    const database = await openPostgres(url, { isServer: true });
    await database.end();
    const tables = await describeTables();
    const table = tables.find(({ name }) => name === 'audit');
    assert.ok(table);
    await using client = await connected(url);
    await client.query(
      `INSERT INTO audit (at, actor, action, target) SELECT n, 'small', '', '' FROM generate_series(1, 3000) AS n`,
    );
    await client.query(
      `INSERT INTO audit (at, actor, action, target) SELECT n, 'large', '', repeat(md5(n::text), 31250) FROM generate_series(1, 60) AS n`,
    );
    const side = await openPostgresSide(url, tables, true);
    try {
      let [count, largest] = [0, 0];
      for await (const rows of side.read(table)) {
        count += rows.length;
        largest = Math.max(largest, JSON.stringify(rows.map(row => row.map(String))).length);
        assert.ok(rows.length <= 1000);
      }
      assert.equal(count, 3060);
      assert.ok(largest > 4_000_000 && largest < 6_000_000, `${largest} bytes`);
    } finally {
      await side.close();
    }
  });

  test('rows of a site with its content in a bucket go back to a directory without content', async () => {
    const data = await site(database => user(database, 'a@example.org'));
    const url = await postgres.createDatabase();
    await moved(`sqlite:${data}`, url);
    const elsewhere = directory.join('without-content');
    await mkdir(elsewhere);
    const back = await moved(url, `sqlite:${elsewhere}`);
    assert.equal(back.tables.find(({ table }) => table === 'users')?.rows, 1);
  });

  test('rows go back only to their own content', async () => {
    const data = await site(database => user(database, 'a@example.org'));
    const other = await site(() => {});
    const url = await postgres.createDatabase();
    const { kept } = await moved(`sqlite:${data}`, url);
    await moved(`sqlite:${other}`, await postgres.createDatabase());
    await refused(url, `sqlite:${other}`, /is not the content of these rows/);
    assert.ok(!existsSync(join(other, 'sluice.db')));
    assert.ok(kept);
  });

  test('a run that is killed leaves nothing, and one that is killed at its end goes on', async () => {
    const data = await site(database => fillDatabase(database, { liveRequests: 40_000 }));
    const url = await postgres.createDatabase();
    await using client = await connected(url);
    const args = ['bin/sluice.js', 'migrate', '--from', `sqlite:${data}`, '--to', url];
    const child = spawn(process.execPath, args, { stdio: 'ignore' });
    await eventually('rows are being copied', async () => {
      const { rows } = await client.query(
        "SELECT 1 FROM pg_stat_activity WHERE application_name = 'sluice migrate' AND query LIKE 'INSERT INTO \"requests\"%'",
      );
      return rows.length > 0;
    });
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.equal((await client.query('SELECT 1 FROM requests')).rowCount, 0);
    const source = join(data, 'sluice.db');
    const report = await moved(`sqlite:${data}`, url);
    assert.equal(report.wasThere, false);
    assert.equal(report.tables.find(({ table }) => table === 'requests')?.rows, 40_000);
    // As if it had been killed before it put the file away.
    await rename(String(report.kept), source);
    const again = await moved(`sqlite:${data}`, url);
    assert.equal(again.wasThere, true);
    assert.deepEqual(again.tables, report.tables);
    assert.ok(!existsSync(source));
  });
});

/** Returns all rows of all tables. */
function dump(path: string, tables: Awaited<ReturnType<typeof describeTables>>): unknown {
  const database = openDatabase(path);
  const rows = tables.map(({ name, columns }) => {
    const list = columns.map(column => `"${column.name}"`).join(', ');
    return [
      name,
      database.prepare(`SELECT ${list} FROM "${name}" ORDER BY 1, 2`).safeIntegers().raw().all(),
    ];
  });
  database.close();
  return rows;
}

/** Gives each table some rows: text in many scripts, bytes, no value, and integers above 2^53. */
function fillEachTable(database: Database): void {
  const text = (key: string) => JSON.stringify({ [key]: 'ä\u{1f4e6}"\\\n', b: [null, true, 1.5] });
  database.pragma('foreign_keys = OFF');
  const tables = database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .pluck()
    .all() as string[];
  for (const table of tables) {
    const columns = database.prepare(`SELECT * FROM pragma_table_info('${table}')`).all() as {
      name: string;
      type: string;
      notnull: number;
      pk: number;
    }[];
    for (const at of [1, 2, 3]) {
      const values = columns.map(({ name, type, notnull, pk }) => {
        if (table === 'credentials' && name === 'workspace') return at === 1 ? 1 : null;
        if (table === 'credentials' && name === 'user') return at === 1 ? null : at;
        if (name === 'user' || name === 'workspace' || name === 'repository' || name === 'id') {
          return type === 'TEXT' ? `${at}` : at;
        }
        if (table === 'blob_sources' && name === 'digest') return text(`${at}digest`);
        if (at === 3 && notnull === 0 && pk === 0) return null;
        if (type === 'INTEGER') return BigInt(Number.MAX_SAFE_INTEGER) + BigInt(at * 2);
        return type === 'BLOB' ? Buffer.from([0, at, 255]) : text(`${at}${name}`);
      });
      const list = columns.map(({ name }) => `"${name}"`).join(', ');
      const marks = values.map(() => '?').join(', ');
      database
        .prepare(`INSERT OR IGNORE INTO "${table}" (${list}) VALUES (${marks})`)
        .run(...values);
    }
  }
}
