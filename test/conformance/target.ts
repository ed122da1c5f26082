import { startSluice } from '../world/sluice.ts';
import { createRepository, type Repository, type Send, withBasic } from './client.ts';

/** The registry under test. */
export interface Target extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** A repository as its administrator sees it; nothing is in it unless a test put it there. */
  repository(name: string, send?: Send): Repository;
}

export const account = 'admin:secret';

export async function startTarget(): Promise<Target> {
  const [name = '', password = ''] = account.split(':');
  const sluice = await startSluice({ config: { accounts: { [name]: password } } });
  const { url, port } = sluice;
  return {
    url,
    port,
    repository: (repository, send = withBasic(account)) =>
      createRepository(url, `conformance/${repository}`, send),
    [Symbol.asyncDispose]: sluice.stop,
  };
}
