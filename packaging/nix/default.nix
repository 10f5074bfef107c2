# Coracle for Nix, of a release archive: nix-build packaging/nix --arg archive ./coracle-VERSION-ARCH-linux-gnu.tar.xz
{
  pkgs ? import <nixpkgs> { },
  archive,
}:
pkgs.stdenv.mkDerivation {
  pname = "coracle";
  version = "0.1.0";
  src = archive;
  # The program's loader and the libraries of C are those of Nix.
  nativeBuildInputs = [ pkgs.autoPatchelfHook ];
  dontConfigure = true;
  dontBuild = true;
  installPhase = ''
    runHook preInstall
    mkdir -p "$out"
    cp -r bin include lib share "$out/"
    install -Dm644 -t "$out/share/doc/coracle" LICENSE-APACHE LICENSE-MIT THIRD-PARTY.txt coracle.cdx.json
    runHook postInstall
  '';
  meta = {
    description = "A whole container engine as a library";
    license = with pkgs.lib.licenses; [ asl20 mit ];
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "coracle";
  };
}
