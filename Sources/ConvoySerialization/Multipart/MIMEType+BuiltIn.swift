extension MIMEType {
    /// The common types, as IANA registers them or, where it does not, as they are widely sent.
    static let builtIn: [String: String] = parse(
        """
        application/atom+xml atom
        application/epub+zip epub
        application/gzip gz
        application/java-archive jar
        application/json json map
        application/ld+json jsonld
        application/manifest+json webmanifest
        application/msword doc dot
        application/octet-stream bin img iso so
        application/ogg ogx
        application/pdf pdf
        application/pgp-encrypted pgp
        application/pgp-signature asc sig
        application/pkcs10 p10
        application/pkcs7-mime p7m p7c
        application/pkcs8 p8
        application/pkix-crl crl
        application/postscript ps eps ai
        application/rss+xml rss
        application/rtf rtf
        application/sql sql
        application/toml toml
        application/vnd.android.package-archive apk
        application/vnd.apple.mpegurl m3u8
        application/vnd.debian.binary-package deb
        application/vnd.ms-excel xls xlt
        application/vnd.ms-fontobject eot
        application/vnd.ms-powerpoint ppt pps
        application/vnd.oasis.opendocument.presentation odp
        application/vnd.oasis.opendocument.spreadsheet ods
        application/vnd.oasis.opendocument.text odt
        application/vnd.openxmlformats-officedocument.presentationml.presentation pptx
        application/vnd.openxmlformats-officedocument.spreadsheetml.sheet xlsx
        application/vnd.openxmlformats-officedocument.wordprocessingml.document docx
        application/vnd.rar rar
        application/vnd.sqlite3 sqlite sqlite3 db
        application/wasm wasm
        application/x-7z-compressed 7z
        application/x-apple-diskimage dmg
        application/x-bzip2 bz2
        application/x-pkcs12 p12 pfx
        application/x-plist plist
        application/x-rpm rpm
        application/x-sh sh
        application/x-tar tar
        application/x-x509-ca-cert crt der pem
        application/x-xz xz
        application/xhtml+xml xhtml xht
        application/xml xml xsl xsd
        application/yaml yaml yml
        application/zip zip
        application/zstd zst
        audio/aac aac
        audio/flac flac
        audio/midi mid midi
        audio/mp4 m4a
        audio/mpeg mp3 mp2
        audio/ogg oga ogg opus
        audio/x-aiff aif aiff
        audio/x-wav wav
        font/collection ttc
        font/otf otf
        font/ttf ttf
        font/woff woff
        font/woff2 woff2
        image/apng apng
        image/avif avif
        image/bmp bmp
        image/gif gif
        image/heic heic
        image/heif heif
        image/jp2 jp2
        image/jpeg jpeg jpg jpe
        image/jxl jxl
        image/png png
        image/svg+xml svg svgz
        image/tiff tiff tif
        image/vnd.adobe.photoshop psd
        image/vnd.microsoft.icon ico
        image/webp webp
        image/x-xbitmap xbm
        message/rfc822 eml
        model/gltf+json gltf
        model/gltf-binary glb
        model/stl stl
        multipart/related mht mhtml
        text/calendar ics
        text/css css
        text/csv csv
        text/html html htm
        text/javascript js mjs
        text/markdown md markdown
        text/plain txt text log conf
        text/tab-separated-values tsv
        text/vcard vcf
        text/vtt vtt
        text/x-c c h
        text/x-swift swift
        video/3gpp 3gp
        video/matroska mkv
        video/mp2t ts
        video/mp4 mp4 m4v
        video/mpeg mpeg mpg
        video/ogg ogv
        video/quicktime mov qt
        video/webm webm
        video/x-msvideo avi
        """)
}
