import { type AdministratorRole, administratorRoles } from './administrator-roles.ts';

/** The role of an account for a repository; each includes the earlier ones. */
export type Role = 'pull' | 'push' | 'administer';

export interface Account {
  /** The password, or its bcrypt or argon2id hash. */
  readonly password: string;
  /** Roles by repository pattern. Without it and `roles` the account administers the service and every repository. */
  readonly repositories?: Readonly<Record<string, Role>> | undefined;
  /** What the account administers. With it, it has the rights to repositories that `repositories` lists. */
  readonly roles?: readonly AdministratorRole[] | undefined;
}

/** Accounts by name. Those of files change while the server runs. */
export type Accounts = ReadonlyMap<string, Account>;

/** Returns the roles of an account. One without `roles` and `repositories` has all of them. */
export function rolesOf({ roles, repositories }: Account): readonly AdministratorRole[] {
  return roles ?? (repositories === undefined ? administratorRoles : []);
}
