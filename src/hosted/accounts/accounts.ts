/** The role of an account for a repository; each includes the earlier ones. */
export type Role = 'pull' | 'push' | 'administer';

export interface Account {
  /** The password, or its bcrypt or argon2id hash. */
  readonly password: string;
  /** Roles by repository pattern. Without it the account administers the service and every repository. */
  readonly repositories?: Readonly<Record<string, Role>> | undefined;
}

/** Accounts by name. Those of files change while the server runs. */
export type Accounts = ReadonlyMap<string, Account>;
