/** The ends of sessions of browsers: by time, by newer ones, by a full table, and by a changed password. */
import assert from 'node:assert/strict';
import { rename, writeFile } from 'node:fs/promises';
import { after, before, suite, test } from 'node:test';
import { hash } from '@node-rs/bcrypt';
import { createSessions, sessionIdleMs, sessionLifeMs } from '../../src/pages/frame/sessions.ts';
import { type Database, openDatabase } from '../../src/storage/rows/database.ts';
import { createSessionStore } from '../../src/storage/rows/people/login-rows.ts';
import { eventually } from '../world/eventually.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { makeTempDir, type TempDir } from '../world/temp-dir.ts';
import { startBrowser, type TestBrowser } from './browser-world.ts';

const hourMs = 3_600_000;
const login = (name: string) => ({ authorization: `Basic ${btoa(`${name}:password`)}` });

suite('sessions in the database', () => {
  const open = (limits?: { readonly ofOne: number; readonly inAll: number }) => {
    const database = openDatabase(':memory:');
    const clock = { now: Date.parse('2026-01-01') };
    const sessions = createSessions(createSessionStore(database), limits, () => clock.now);
    const find = async (cookie: string) => {
      const found = await sessions.find(cookie);
      // The use of a session is written after the response.
      await database.commit(() => database.sql('SELECT 1').get());
      return found;
    };
    return { database, clock, sessions: { begin: sessions.begin, find } };
  };
  const countIn = (database: Database) => [
    database.prepare('SELECT COUNT(*) FROM sessions').pluck().get(),
    database.prepare("SELECT value FROM sums WHERE name = 'sessions'").pluck().get(),
  ];

  test('a session ends after a day without use', async () => {
    const { clock, sessions } = open();
    const cookie = await sessions.begin(login('one'), 'one');
    clock.now += sessionIdleMs - hourMs;
    assert.deepEqual(await sessions.find(cookie), login('one'));
    clock.now += sessionIdleMs - hourMs;
    assert.deepEqual(await sessions.find(cookie), login('one'), 'the use counts');
    clock.now += sessionIdleMs + 1;
    assert.equal(await sessions.find(cookie), undefined);
  });

  test('a session that is used every hour ends after a week', async () => {
    const { clock, sessions } = open();
    const cookie = await sessions.begin(login('one'), 'one');
    const end = clock.now + sessionLifeMs;
    for (; clock.now <= end; clock.now += hourMs) assert.ok(await sessions.find(cookie));
    assert.equal(await sessions.find(cookie), undefined);
  });

  test('the oldest session of an owner ends when the owner begins one too many', async () => {
    const { database, clock, sessions } = open();
    const other = await sessions.begin(login('other'), 'other');
    const cookies: string[] = [];
    for (let at = 0; at < 51; at += 1) {
      clock.now += 1000;
      cookies.push(await sessions.begin(login('one'), 'one'));
    }
    const [first = '', second = ''] = cookies;
    assert.equal(await sessions.find(first), undefined);
    assert.ok(await sessions.find(second));
    assert.ok(await sessions.find(other), 'other owners keep theirs');
    assert.deepEqual(countIn(database), [51, 51]);
  });

  test('ten thousand logins of ten thousand people do not fill the disk', async () => {
    const { database, clock, sessions } = open({ ofOne: 50, inAll: 500 });
    const kept = await sessions.begin(login('regular'), 'regular');
    let last = '';
    for (let at = 0; at < 10_000; at += 1) {
      clock.now += 10_000;
      last = await sessions.begin(login(`person ${at}`), `person ${at}`);
      // A session in use stays: those that nobody used for the longest time end.
      if (at % 300 === 0) await sessions.find(kept);
    }
    assert.deepEqual(countIn(database), [500, 500]);
    assert.ok(await sessions.find(last), 'the newest login works');
    assert.ok(await sessions.find(kept), 'a session in use works');
  });
});

suite('sessions of a server', () => {
  let browser: TestBrowser;
  let directory: TempDir;
  let sluice: Sluice;
  const setPassword = async (password: string) => {
    const file = directory.join('htpasswd');
    await writeFile(`${file}.new`, `admin:${await hash(password, 4)}\n`);
    await rename(`${file}.new`, file);
  };

  before(async () => {
    [browser, directory] = await Promise.all([startBrowser(), makeTempDir('session-ends')]);
    await setPassword('first password');
    const accountFiles = [{ file: directory.join('htpasswd'), administrators: ['admin'] }];
    sluice = await startSluice({ config: { accountFiles } });
  });
  after(async () => {
    await browser?.[Symbol.asyncDispose]();
    await sluice?.stop();
    await directory?.remove();
  });

  test('a changed password ends the sessions of its account', async () => {
    await using tab = await browser.open({ mayFail: true });
    const { page } = tab;
    await page.goto(`${sluice.url}/view/login?to=/view/account`);
    await page.getByLabel('Name').fill('admin');
    await page.getByLabel('Password').fill('first password');
    await page.getByRole('button', { name: 'Log in' }).first().click();
    await page.waitForURL('**/view/account');
    const person = page.locator('header .person');

    await page.goto(`${sluice.url}/view/usage?from=never`);
    assert.equal(await page.locator('h1').innerText(), 'This cannot be done');
    assert.equal(await person.innerText(), 'admin', 'a page that fails shows who looks');
    await page.goto(`${sluice.url}/view/nothing`);
    assert.equal(await page.locator('h1').innerText(), 'Not found');
    assert.equal(
      await person.innerText(),
      'Account',
      'a session is there, its person is not known',
    );

    await setPassword('second password');
    await eventually('the session ends', async () => {
      await page.goto(`${sluice.url}/`);
      return (await person.innerText()) === 'Log in';
    });
    assert.deepEqual(await tab.context.cookies(), [], 'the cookie is gone');
    await page.goto(`${sluice.url}/view/nothing`);
    assert.equal(await person.innerText(), 'Log in');
  });
});
