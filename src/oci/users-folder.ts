/** The first part of the repositories that belong to users: `users/<user>/<repository>`. */
export const usersFolder = 'users';
