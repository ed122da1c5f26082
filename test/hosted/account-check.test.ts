import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hash as argon2 } from '@node-rs/argon2';
import { hash as bcrypt } from '@node-rs/bcrypt';
import { createAccountCheck } from '../../src/hosted/accounts/account-check.ts';
import type { Account } from '../../src/hosted/accounts/accounts.ts';
import { hashPassword, passwordForm } from '../../src/hosted/accounts/password-hash.ts';

const word = 'open sesame ü';
// The marks of versions differ by who wrote the hash, not by how it is computed.
const marked = async (mark: string) =>
  (await bcrypt(word, 4)).replace(/^\$2[aby]\$/, () => `$${mark}$`);
const forms = {
  plain: word,
  '2a': await marked('2a'),
  '2b': await marked('2b'),
  '2y': await marked('2y'),
  argon2id: await hashPassword(word),
};

suite('a name and a password', () => {
  for (const [form, password] of Object.entries(forms)) {
    test(`must match exactly: ${form}`, async () => {
      const account = { password };
      const { find } = createAccountCheck(new Map([['ada', account]]));
      // Twice: also from memory.
      for (let tries = 0; tries < 2; tries += 1) {
        assert.equal(await find('ada', word), account);
        assert.equal(await find('ada', ''), undefined);
        assert.equal(await find('ada', 'Open sesame ü'), undefined);
        assert.equal(await find('ada', password), form === 'plain' ? account : undefined);
        assert.equal(await find('bob', word), undefined);
        assert.equal(await find('__proto__', ''), undefined);
      }
    });
  }

  test('never match without accounts', async () => {
    const { find } = createAccountCheck(new Map());
    assert.equal(await find('ada', ''), undefined);
  });

  test('are compared with a hash once, also simultaneously, until the accounts change', async () => {
    const accounts = new Map<string, Account>([['ada', { password: forms.argon2id }]]);
    const { find, reset } = createAccountCheck(accounts);
    let hashes = 0;
    const count = () => {
      hashes += 1;
    };
    const all = await Promise.all(Array.from({ length: 40 }, () => find('ada', word, count)));
    assert.ok(all.every(found => found !== undefined));
    assert.ok(hashes <= 2, `${hashes} hashes for the two that run at once`);
    for (const password of ['wrong', 'wrong', word]) await find('ada', password, count);
    assert.ok(hashes <= 3, 'a failure is remembered too');
    accounts.set('ada', { password: await hashPassword('another') });
    assert.equal(await find('ada', word), undefined, 'no result is used for another hash');
    accounts.set('ada', { password: forms.argon2id });
    reset();
    hashes = 0;
    assert.ok(await find('ada', word, count));
    assert.equal(hashes, 1);
  });

  test('of an account that is removed meanwhile do not match', async () => {
    const accounts = new Map<string, Account>([['ada', { password: forms.argon2id }]]);
    const found = createAccountCheck(accounts).find('ada', word, () => accounts.delete('ada'));
    assert.equal(await found, undefined);
  });

  test('cost a hash of the same kind for an unknown name', async () => {
    const slow = await argon2(word, { memoryCost: 32 * 1024, timeCost: 2 });
    const { find } = createAccountCheck(new Map([['ada', { password: slow }]]));
    // Processor time of all threads, which other programs do not use.
    const time = async (name: string, password: string) => {
      const before = process.cpuUsage();
      assert.equal(await find(name, password), undefined);
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000;
    };
    const known: number[] = [];
    const unknown: number[] = [];
    for (let tries = 0; tries < 5; tries += 1) {
      known.push(await time('ada', `guess ${tries}`));
      unknown.push(await time(`nobody ${tries}`, `guess ${tries}`));
    }
    const [least, other] = [Math.min(...known), Math.min(...unknown)];
    assert.ok(other > least / 2 && least > other / 2, `${least} and ${other} ms`);
  });

  test('wait for their turn; too many are refused, and an error ends a check', async () => {
    const { find } = createAccountCheck(new Map([['ada', { password: forms.argon2id }]]));
    let hashes = 0;
    const limit = () => {
      hashes += 1;
      if (hashes > 2) throw new Error('limit');
    };
    const all = await Promise.allSettled(
      Array.from({ length: 1010 }, (_, at) => find('ada', `guess ${at}`, limit)),
    );
    const reasons = all.flatMap(one => (one.status === 'rejected' ? [one.reason.message] : []));
    assert.equal(reasons.filter(reason => reason === 'limit').length, 1000);
    assert.equal(reasons.filter(reason => /Too many logins/.test(reason)).length, 8);
    assert.ok(await find('ada', word), 'all turns are free again');
  });

  test('do not block the event loop', async () => {
    const slow = await argon2(word, { memoryCost: 32 * 1024, timeCost: 4 });
    const { find } = createAccountCheck(new Map([['ada', { password: slow }]]));
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 1);
    assert.ok(await find('ada', word));
    clearInterval(timer);
    assert.ok(turns > 3, `${turns} turns meanwhile`);
  });
});

test('unknown formats are reported, without the hash', () => {
  for (const text of ['secret', '$ecret', '$1', '$money$', '$$$', '{curly}']) {
    assert.equal(passwordForm(text), 'plain', text);
  }
  const body = 'N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy';
  for (const text of [
    '$apr1$salt$0123456789012345678901',
    '$1$salt$0123456789',
    '$6$rounds=5000$salt$0123',
    `$2x$10$${body}`,
    `$2y$10$${body.slice(1)}`,
    `$2y$03$${body}`,
    `$2y$16$${body}`,
    '{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=',
    '$argon2i$v=19$m=16,t=2,p=1$c2FsdHNhbHQ$0123456789012345678901',
    '$argon2id$v=19$m=9999999,t=2,p=1$c2FsdHNhbHQ$0123456789012345678901',
    '$argon2id$v=19$m=262144,t=20,p=1$c2FsdHNhbHQ$0123456789012345678901',
    forms.argon2id.slice(0, 60),
  ]) {
    assert.throws(
      () => passwordForm(text),
      ({ message }: Error) => /expected/.test(message) && !message.includes(text.slice(8)),
      text,
    );
  }
});
