// A user and a password end at the last @ before the path. No text takes long: each look ends at the next slash.
const userInfo = /(:\/\/)[^\s/?#'"<>]+@/g;

/** The text with `***` in place of user and password of every address in it, such as `https://user:token@host`. */
export function maskAddresses(text: string): string {
  return text.includes('://') ? text.replace(userInfo, '$1***@') : text;
}
