import type { Credentials } from '../upstream/auth/index.ts';
import type { AccountCheck } from './accounts/account-check.ts';
import type { Accounts } from './accounts/accounts.ts';
import type { RegistryTokens } from './registry-tokens.ts';
import { accountRights, commonRights, pullRights, type Rights } from './rights.ts';
import { contextPrefix } from './uploads/context-repository.ts';

/** The user name of clients that send a bearer token in place of a password. */
export const tokenName = 'token';

/** Turns credentials into rights. */
export interface Authenticator {
  /** True when accounts exist, or can be added while the server runs. */
  readonly hasAccounts: boolean;
  /** True for the name of an account. */
  knows(name: string): boolean;
  /** Rights of callers without a login. */
  readonly anybody: Rights;
  /**
   * Returns the rights of a name and password, undefined when they are wrong. Under the name {@link tokenName} the
   * password is a bearer token, for clients that support passwords only.
   *
   * @param beforeHash see {@link AccountCheck.find}
   */
  withPassword(
    name: string,
    password: string,
    beforeHash?: () => void,
  ): Promise<Rights | undefined>;
  /**
   * Returns the rights of credentials sent to a registry; without credentials, the rights of callers without a login.
   */
  withCredentials(credentials: Credentials | undefined): Promise<Rights | undefined>;
  /** Returns the rights that a bearer token gives; undefined for an invalid token. */
  withToken(text: string): Promise<Rights | undefined>;
  /**
   * Returns the rights of the holder of a bearer token that may list repositories; undefined for all other tokens.
   */
  toList(text: string): Promise<Rights | undefined>;
}

export interface AuthenticatorDeps {
  readonly accounts: Accounts;
  readonly accountCheck: Pick<AccountCheck, 'find'>;
  /** True when accounts can be added while the server runs. */
  readonly hasAccountFiles: boolean;
  /** Patterns of the repositories that callers without a login may pull. */
  readonly anonymous: readonly string[];
  readonly tokens: RegistryTokens;
}

export function createAuthenticator(deps: AuthenticatorDeps): Authenticator {
  const { accounts, accountCheck, hasAccountFiles, anonymous, tokens } = deps;
  const open = pullRights(anonymous);
  // Build contexts contain sources that their owner has shown to this server only, so `*` does not include them.
  const anybody: Rights = repository =>
    repository.startsWith(contextPrefix) ? [] : open(repository);
  const withToken = async (text: string): Promise<Rights | undefined> => {
    const token = await tokens.read(text);
    if (!token) return undefined;
    const { account, access } = token;
    const granted: Rights = repository =>
      // containerd 1.6 requests one repository twice, to pull and to push.
      access.filter(({ name }) => name === repository).flatMap(({ actions }) => actions);
    if (account === undefined) return granted;
    // The account may have lost rights, or have been removed, since the token was issued.
    const holder = accounts.get(account);
    return holder && commonRights(granted, accountRights(holder, anybody));
  };

  const withPassword: Authenticator['withPassword'] = async (name, password, beforeHash) => {
    if (name === tokenName) return withToken(password);
    const account = await accountCheck.find(name, password, beforeHash);
    return account && accountRights(account, anybody);
  };

  return {
    hasAccounts: hasAccountFiles || accounts.size > 0,
    knows: name => accounts.has(name),
    anybody,
    withToken,

    async toList(text) {
      const token = await tokens.read(text);
      if (!token?.mayList) return undefined;
      if (token.account === undefined) return anybody;
      const holder = accounts.get(token.account);
      return holder && accountRights(holder, anybody);
    },

    withPassword,

    async withCredentials(credentials) {
      return credentials?.kind === 'password'
        ? withPassword(credentials.username, credentials.password)
        : anybody;
    },
  };
}
