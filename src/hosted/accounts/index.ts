/** Accounts, their roles and their rights. */

export { type Action, matcher, pullRights, type Rights } from '../rights.ts';
export { type AccountChange, type AccountFiles, openAccountFiles } from './account-files.ts';
export { type Account, type Accounts, rolesOf } from './accounts.ts';
export { type AdministratorRole, administratorRoles } from './administrator-roles.ts';
