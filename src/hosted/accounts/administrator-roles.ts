/**
 * What an administrator may do, apart:
 *
 * - `site`: end container requests, cancel builds, see all builds and figures, add and remove users and workspaces;
 * - `tokens`: list, create and revoke access tokens of users;
 * - `credentials`: list, add and remove registry credentials of users and workspaces, and change who shares those of a
 *   workspace;
 * - `audit`: read the audit log;
 * - `registries`: use the registry credentials of the configuration.
 */
export const administratorRoles = ['site', 'tokens', 'credentials', 'audit', 'registries'] as const;
export type AdministratorRole = (typeof administratorRoles)[number];
