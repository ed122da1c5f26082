import { randomBytes } from 'node:crypto';
import { createBuiltInPlatform } from '../../../src/platform/built-in/built-in-platform.ts';
import { openDatabase } from '../../../src/storage/rows/database.ts';
import { rowsOf } from '../../../src/storage/rows/rows.ts';
import { createSecretBox } from '../../../src/storage/rows/secret-box.ts';

/** A built-in platform in memory, at a time of the test's choice. */
export function makePlatform(at = Date.UTC(2026, 0, 1, 12)) {
  const clock = { now: at };
  const database = openDatabase(':memory:');
  const secrets = createSecretBox(randomBytes(32));
  const platform = createBuiltInPlatform({ rows: rowsOf(database), secrets, now: () => clock.now });
  const makeUser = async (email: string) => {
    const user = await platform.users.add(email);
    const { value, token } = await platform.tokens.create({ user: user.id, name: 'test' });
    const grant = { endpoint: 'http://127.0.0.1/platform', accessToken: value };
    return { user, token, grant };
  };
  return { clock, database, platform, makeUser };
}

export const login = { kind: 'container-reg', username: 'ada', password: 's3cret' } as const;
export const page = { limit: 100, offset: 0 };
