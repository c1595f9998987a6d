export async function open(root) { root.append(Object.assign(document.createElement("h1"), { textContent: "Network" })); return {}; }
