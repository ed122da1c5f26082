// User and password end at the last @ before the path. Matching stays fast: each attempt ends at the next slash.
const userInfo = /(:\/\/)[^\s/?#'"<>]+@/g;

/** Replaces user and password in every address of the text, such as `https://user:token@host`, with `***`. */
export function maskAddresses(text: string): string {
  return text.includes('://') ? text.replace(userInfo, '$1***@') : text;
}
