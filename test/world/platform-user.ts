import type { Sluice } from './sluice.ts';

/** Makes a user of a server's own platform and returns an access token of theirs. */
export async function newAccessToken(
  server: Pick<Sluice, 'fetch'>,
  account: { readonly name: string; readonly password: string },
  email: string,
): Promise<string> {
  const authorization = `Basic ${Buffer.from(`${account.name}:${account.password}`).toString('base64')}`;
  const post = async (path: string, body: object) => {
    const response = await server.fetch(`/platform${path}`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    return (await response.json()) as { accessKey: string };
  };
  await post('/users', { email });
  return (await post('/tokens', { name: 'test', user: email })).accessKey;
}
